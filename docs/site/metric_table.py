"""Page of all metrics, from the registry of the service."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from docs.site.markdown import NOTE, cell, code, table
from headlight_service.telemetry.metrics import GAUGES, Metrics

GROUPS = {
    "headlight_": "## The service\n\nSeries with the label `model` exist once a model is served.",
    "grpc_server_": "## Calls\n\nThe names are those of go-grpc-middleware, so its dashboards fit.",
    "process_": "## The process\n\nprometheus-client has these on Linux.",
}
# Labels whose values are names of the model or of its bundle.
OPEN = {"model", "version", "sha256", "provider", "precision", "positions"}
METHOD = {"grpc_type": "", "grpc_service": "", "grpc_method": ""}
ENDS = {"counter": "_total"}


def registry() -> CollectorRegistry:
    """Return a registry with every metric, as of a service with TLS, tokens and one model."""
    metrics = Metrics()
    metrics.define_tls(lambda: 0.0)
    metrics.refused_tls()
    metrics.refused_tokens()
    metrics.grpc_started.labels(**METHOD)
    metrics.grpc_handled.labels(**METHOD, grpc_code="")
    metrics.grpc_seconds.labels(**METHOD)
    metrics.of("")
    metrics.serve(
        model="",
        version="",
        sha256="",
        provider="",
        precision="",
        positions="",
        gauges=dict.fromkeys(GAUGES, lambda: 0.0),
    )
    return metrics.registry


def page() -> str:
    """Return the page."""
    families = list(registry().collect())
    parts = [f"{NOTE}# All metrics\n\nThe service returns them at `/metrics`, for Prometheus."]
    for prefix, head in GROUPS.items():
        rows = [row(family) for family in families if family.name.startswith(prefix)]
        parts.append(f"{head}\n\n{table(('metric', 'labels', 'meaning'), rows)}")
    if left := [family.name for family in families if not family.name.startswith(tuple(GROUPS))]:
        raise ValueError(f"{', '.join(left)}: no group of GROUPS has these metrics")
    found = [(code(family.name), ", ".join(edges(family))) for family in families if edges(family)]
    parts.append(f"## Buckets\n\n{table(('histogram', 'upper edges'), found)}")
    return "\n\n".join(parts)


def row(family: Metric) -> tuple[str, str, str]:
    """Return the row of a metric."""
    name = code(family.name + ENDS.get(family.type, ""))
    return f"{name}<br>{family.type}", labels(family), cell(family.documentation)


def edges(family: Metric) -> list[str]:
    """Return the upper edges of a histogram's buckets."""
    found = dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels)
    return [edge.removesuffix(".0") for edge in found]


def labels(family: Metric) -> str:
    """Return the labels of a metric, with the values of those that are closed sets."""
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for name, value in sample.labels.items():
            values.setdefault(name, {})[value] = None
    values.pop("le", None)
    return "<br>".join(
        code(name) if name in OPEN or list(found) == [""] else f"{code(name)}: {', '.join(found)}"
        for name, found in values.items()
    )
