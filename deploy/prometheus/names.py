"""Every metric that rules, runbooks and dashboard may read, and those that an expression reads.

Any other name is reported as a mistake. PromQL is read by patterns, without a parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from headlight.outputs.registry import OUTPUTS
from headlight.spec import PRIORITIES
from headlight_service.telemetry.metrics import CANCEL_STAGES, COMPARISON, REASONS, STAGES, Metrics

STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
COMMENTS = re.compile(r"#[^\n]*")
SELECTORS = re.compile(r"\{[^{}]*\}")
RANGES = re.compile(r"\[[^\[\]]*\]")
GROUPINGS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
VARIABLES = re.compile(r"\$\w+|\$\{\w+(?::\w+)?\}")
NUMBERS = re.compile(r"(?<![\w:])\d[\w.]*")  # durations too
NAMES = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def metric_names(expression: str) -> set[str]:
    """Return the metrics that an expression reads, recorded ones included."""
    bare = STRINGS.sub('""', expression)  # first: a string may hold any of the rest
    for part in (COMMENTS, SELECTORS, RANGES, GROUPINGS, VARIABLES, NUMBERS):
        bare = part.sub(" ", bare)
    return {name for name in NAMES.findall(bare) if name.lower() not in WORDS}


# Of kube-state-metrics, with a series as for a healthy replica.
KUBE_STATE = {
    "kube_deployment_spec_replicas": (
        'kube_deployment_spec_replicas{namespace="test",deployment="headlight"} 1'
    ),
    "kube_deployment_status_replicas_ready": (
        'kube_deployment_status_replicas_ready{namespace="test",deployment="headlight"} 1'
    ),
    "kube_pod_container_status_restarts_total": (
        'kube_pod_container_status_restarts_total{namespace="test",pod="headlight-0",'
        'container="headlight",uid="1"} 0'
    ),
    "kube_pod_container_status_last_terminated_exitcode": (
        "kube_pod_container_status_last_terminated_exitcode"
        '{namespace="test",pod="headlight-0",container="headlight",uid="1"} 0'
    ),
    "kube_pod_container_status_ready": (
        'kube_pod_container_status_ready{namespace="test",pod="headlight-0",'
        'container="headlight",uid="1"} 1'
    ),
}
# Of the labels whose values are closed sets.
LABEL_VALUES: dict[str, set[str]] = {
    "reason": set(REASONS),
    "stage": {*STAGES, *CANCEL_STAGES},
    "priority": set(PRIORITIES),
    "output": {*OUTPUTS, COMPARISON},
    "sli": {"calls", "requests", "overload", "latency"},
    "severity": {"page", "ticket"},
}
PROMETHEUS = {"up", "scrape_duration_seconds", "ALERTS"}  # its own
ENDS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def series_names(registry: CollectorRegistry) -> set[str]:
    """Return the names under which a registry's metrics are scraped."""
    return {
        family.name + end for family in registry.collect() for end in ENDS.get(family.type, ("",))
    }


def our_names() -> set[str]:
    """Return the service's names, with TLS and tokens, which some metrics need."""
    metrics = Metrics()
    metrics.define_tls(lambda: 0.0)
    metrics.refused_tls()
    metrics.refused_tokens()
    return series_names(metrics.registry)


def known_names(recorded: Iterable[str]) -> set[str]:
    """Return all names that may be read, `recorded` by rules included."""
    return {*our_names(), *KUBE_STATE, *PROMETHEUS, *recorded}


def check_names(names: Iterable[str], known: set[str], where: str) -> None:
    """Raise ValueError for unknown names; the message has the names and their place."""
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(
            f"{where} reads {', '.join(unknown)}; no metric, rule or exporter has that name"
        )
