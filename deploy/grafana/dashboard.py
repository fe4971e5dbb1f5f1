"""Grafana dashboard, generated from its rows; an unknown metric name is an error."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana import inside, users
from deploy.grafana.model import SCHEMA_VERSION, SOURCE, Json, Row, panels_json
from deploy.prometheus.expressions import metric_names
from deploy.prometheus.names import check_names, known_names
from deploy.prometheus.sources import recorded

FILE = Path(__file__).resolve().parent / "headlight.json"
ROWS = (*users.ROWS, *inside.ROWS)
ABOUT = (
    "Embeddings and attention over gRPC. Written by `make monitoring` from deploy/grafana: "
    "change that, not this."
)


def expressions(rows: tuple[Row, ...] = ROWS) -> list[tuple[str, str]]:
    """Return the title of each panel with each of its expressions."""
    return [
        (panel.title, query.expr) for row in rows for panel in row.panels for query in panel.queries
    ]


def dashboard(rows: tuple[Row, ...] = ROWS) -> Json:
    """Return the whole dashboard.

    Raises:
        ValueError: a panel reads a name of no metric, rule or exporter.
    """
    known = known_names(recorded())
    for title, expr in expressions(rows):
        check_names(metric_names(expr), known, f"the panel {title!r}")
    return {
        "id": None,
        "uid": "headlight",
        "title": "Headlight",
        "description": ABOUT,
        "tags": ["headlight", "grpc", "embeddings"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "weekStart": "",
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,  # one crosshair in all panels
        "liveNow": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "links": [],
        "annotations": {"list": [_alerts()]},
        "templating": {
            "list": [_datasource(), _label("namespace", "namespace"), _label("model", "model")]
        },
        "panels": panels_json(rows),
    }


def text() -> str:
    """Return the content of the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def _alerts() -> Json:
    """Return the annotation that marks firing alerts."""
    return {
        "name": "Alerts",
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Headlight.+", alertstate="firing", namespace=~"$namespace|"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{severity}} {{namespace}} {{pod}}",
        "step": "60s",
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def _label(name: str, label: str) -> Json:
    """Return a variable of a label's values.

    "All" also finds series without this label, as outside of Kubernetes.
    """
    within = '{namespace=~"$namespace"}' if name == "model" else ""
    query = f"label_values(headlight_model_info{within}, {label})"
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "allValue": ".*",
        "includeAll": True,
        "multi": True,
        "hide": 0,
        "options": [],
        "refresh": 2,  # at each change of the time range
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
    }
