"""Every metric that the rules, the runbooks and the dashboard may read. One that is not here is a mistake, and found as such."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from headlight.priority import PRIORITIES
from service.metrics import CANCEL_STAGES, OUTPUTS, REASONS, STAGES, Metrics

# Agreed on and not yet in service/metrics.py: to be emptied once they are. Name -> its series with a value on which all is well,
# which a test without them serves in their place.
PENDING = {
    "headlight_ready": "headlight_ready 1",
    "headlight_stuck": "headlight_stuck 0",
    "headlight_provider_fallback": 'headlight_provider_fallback{model="docs-rope"} 0',
}
PENDING_REASONS = {"quota"}  # likewise, of headlight_rejected_total
# Of a service with TLS or with tokens alone; the same for a test without.
OPTIONAL = {
    "headlight_tls_certificate_expiry_timestamp_seconds": "headlight_tls_certificate_expiry_timestamp_seconds 4e9",
    "headlight_tls_reload_failures_total": "headlight_tls_reload_failures_total 0",
    "headlight_auth_reload_failures_total": "headlight_auth_reload_failures_total 0",
}
# Of kube-state-metrics, with a series as it has them for a replica that is well.
KUBE_STATE = {
    "kube_deployment_spec_replicas": 'kube_deployment_spec_replicas{namespace="test",deployment="headlight"} 1',
    "kube_deployment_status_replicas_ready": (
        'kube_deployment_status_replicas_ready{namespace="test",deployment="headlight"} 1'
    ),
    "kube_pod_container_status_restarts_total": (
        'kube_pod_container_status_restarts_total{namespace="test",pod="headlight-0",container="headlight",uid="1"} 0'
    ),
    "kube_pod_container_status_last_terminated_exitcode": (
        "kube_pod_container_status_last_terminated_exitcode"
        '{namespace="test",pod="headlight-0",container="headlight",uid="1"} 0'
    ),
    "kube_pod_container_status_ready": (
        'kube_pod_container_status_ready{namespace="test",pod="headlight-0",container="headlight",uid="1"} 1'
    ),
}
# Of the labels whose values are closed sets.
LABEL_VALUES: dict[str, set[str]] = {
    "reason": {*REASONS, *PENDING_REASONS},
    "stage": {*STAGES, *CANCEL_STAGES},
    "priority": set(PRIORITIES),
    "output": set(OUTPUTS),
    "sli": {"calls", "requests", "overload", "latency"},
    "severity": {"page", "ticket"},
}
PROMETHEUS = {"up", "scrape_duration_seconds", "ALERTS"}  # its own
ENDS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def series_names(registry: CollectorRegistry) -> set[str]:
    """The names under which a registry's metrics are scraped."""
    return {family.name + end for family in registry.collect() for end in ENDS.get(family.type, ("",))}


def known_names(recorded: Iterable[str]) -> set[str]:
    """All that may be read, `recorded` by rules included.

    Raises:
        ValueError: a name of PENDING is pending no longer.
    """
    ours = series_names(Metrics().registry)
    arrived = sorted(ours & set(PENDING) | PENDING_REASONS & set(REASONS))
    if arrived:
        raise ValueError(f"{', '.join(arrived)}: in service/metrics.py by now; take it out of what is pending")
    return {*ours, *PENDING, *OPTIONAL, *KUBE_STATE, *PROMETHEUS, *recorded}


def check_names(found: Iterable[str], known: set[str], where: str) -> None:
    """Refuse what is not known.

    Raises:
        ValueError: saying where which name stands.
    """
    unknown = sorted(set(found) - known)
    if unknown:
        raise ValueError(f"{where} reads {', '.join(unknown)}, which no metric, rule or exporter is called")
