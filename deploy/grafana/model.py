"""Panels in few fields, and their JSON for Grafana (schema 38: Grafana 10.0 and later)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

SCHEMA_VERSION = 38  # of Grafana 10.0; later versions read and upgrade it
WIDTH = 24  # columns of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, ORANGE, RED = "green", "orange", "red"
Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Query:
    """An expression and the name of its series: {{label}} stands for a label's value."""

    expr: str
    legend: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: heading of the panel.
        about: meaning, and when to worry; Grafana shows it behind the title.
        queries: drawn together.
        unit: Grafana's name for it, as "s" or "reqps".
        kind: a panel type of Grafana.
        width: in columns.
        height: in rows of the grid.
        stacked: whether series add up.
        limits: values from which it is orange and red; one of them: red.
        least: the lower end of the axis, if not 0.
        greatest: the upper end of the axis.
        words: names of values, as {0: "no"}.
    """

    title: str
    about: str
    queries: Sequence[Query]
    unit: str
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    limits: Sequence[float] = ()
    least: float | None = 0
    greatest: float | None = None
    words: dict[int, str] = dataclasses.field(default_factory=dict)
    falling: bool = False  # less is worse


@dataclasses.dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


def panels_json(rows: Sequence[Row]) -> list[Json]:
    """Place rows and panels from left to right, with a new line if one does not fit."""
    numbers, placed, top = itertools.count(1), [], 0
    for row in rows:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        placed.append(
            {
                "id": next(numbers),
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                top, left, tallest = top + tallest, 0, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            placed.append({"id": next(numbers), "gridPos": place, **_panel(panel)})
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return placed


def _panel(panel: Panel) -> Json:
    defaults: Json = {
        "unit": panel.unit,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": _steps(panel)},
        "mappings": _mappings(panel),
        "custom": _custom(panel),
    }
    if panel.least is not None:
        defaults["min"] = panel.least
    if panel.greatest is not None:
        defaults["max"] = panel.greatest
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS[panel.kind],
        "targets": [
            _target(panel, letter, query)
            for letter, query in zip("ABCDEFGH", panel.queries, strict=False)
        ],
        **_extra(panel),
    }


def _target(panel: Panel, letter: str, query: Query) -> Json:
    instant = panel.kind in {"stat", "table"}
    return {
        "refId": letter,
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
        "format": {"table": "table", "heatmap": "heatmap"}.get(panel.kind, "time_series"),
    }


def _steps(panel: Panel) -> list[Json]:
    rising = (GREEN, RED) if len(panel.limits) == 1 else (GREEN, ORANGE, RED)
    colours = rising[: len(panel.limits) + 1]
    colours = colours[::-1] if panel.falling else colours
    return [
        {"color": colour, "value": value}
        for colour, value in zip(colours, (None, *panel.limits), strict=True)
    ]


def _mappings(panel: Panel) -> list[Json]:
    if not panel.words:
        return []
    options = {
        str(value): {"text": text, "index": index}
        for index, (value, text) in enumerate(panel.words.items())
    }
    return [{"type": "value", "options": options}]


def _custom(panel: Panel) -> Json:
    if panel.kind != "timeseries":
        return {}
    return {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 30 if panel.stacked else 10,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if panel.limits else "off"},
    }


def _extra(panel: Panel) -> Json:
    """Return a table's options: a line for each series, labels as columns, no time."""
    if panel.kind != "table":
        return {}
    hidden = dict.fromkeys(
        ("Time", "Value", "__name__", "job", "instance", "container", "endpoint"), True
    )
    options = {"excludeByName": hidden, "indexByName": {}, "renameByName": {}}
    return {"transformations": [{"id": "organize", "options": options}]}


LEGEND = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}
OPTIONS: dict[str, Json] = {
    "timeseries": {"legend": LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
    },
    "table": {
        "showHeader": True,
        "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "fields": ""},
    },
    "heatmap": {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "yAxis": {"axisPlacement": "left", "unit": "s", "reverse": False},
        "legend": {"show": True},
        # the first for Grafana 10, the second for 11
        "tooltip": {"show": True, "mode": "single", "yHistogram": False},
        "rowsFrame": {"layout": "auto"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "showValue": "never",
    },
}
