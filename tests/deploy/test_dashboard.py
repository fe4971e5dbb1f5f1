"""The dashboard, checked against Grafana's documented model.

Grafana itself is not available here.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from deploy.check.rules import names_are_known
from deploy.grafana import dashboard
from deploy.prometheus.names import metric_names, our_names
from deploy.prometheus.sources import rules

MADE: dict[str, Any] = dashboard.read()
PANELS = dashboard.panels()
UNITS = {"short", "s", "bytes", "Bps", "reqps", "ops", "percentunit"}  # the names that Grafana uses
# `kubectl apply` writes an object into an annotation of itself, which may have 262,144.
CONFIG_MAP_BYTES = 200_000


def test_every_query_names_existing_metrics() -> None:
    assert names_are_known(dashboard.expressions()) == []
    [problem] = names_are_known([("Wrong", "rate(headlight_txets_total[5m])")])
    assert "headlight_txets_total" in problem


def test_every_metric_of_the_service_is_in_a_panel_or_a_rule() -> None:
    read = {name for _, expr in dashboard.expressions() for name in metric_names(expr)}
    read |= {name for rule in rules() for name in metric_names(rule["expr"])}
    stems = {re.sub(r"_(bucket|sum|count)$", "", name) for name in read}
    ours = {name for name in our_names() if not name.startswith("process_")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours} - stems == set()


def test_the_dashboard_has_the_fields_that_grafana_imports() -> None:
    assert MADE["id"] is None  # the metric must not exist
    assert re.fullmatch(r"[\w-]{1,40}", MADE["uid"])
    assert MADE["schemaVersion"] == 38
    assert dashboard.FILE.stat().st_size < CONFIG_MAP_BYTES


def test_panels_have_unique_ids_and_positions() -> None:
    assert len({panel["id"] for panel in MADE["panels"]}) == len(MADE["panels"])
    places = [panel["gridPos"] for panel in MADE["panels"]]
    assert all(
        place["x"] >= 0 and place["x"] + place["w"] <= 24 and place["h"] > 0 for place in places
    )
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_has_a_description(panel: dict[str, Any]) -> None:
    assert panel["type"] in {"timeseries", "stat", "table", "heatmap"}
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert steps[0]["value"] is None, "the first step is from minus infinity"
    assert [step["value"] for step in steps][1:] == sorted(step["value"] for step in steps[1:])
    refs = [target["refId"] for target in panel["targets"]]
    assert refs
    assert len(set(refs)) == len(refs)
    for target in panel["targets"]:
        assert target["legendFormat"]
        assert target["instant"] != target["range"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_legends_use_only_labels_that_their_expression_keeps(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            assert all(label in re.split(r",\s*", one) for one in kept), (label, target["expr"])


def test_variables_are_defined_if_and_only_if_they_are_used() -> None:
    names = {variable["name"] for variable in MADE["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([MADE["panels"], MADE["templating"]]))) - {
        "__rate_interval",
        "__all",
    }
    assert used == names == {"datasource", "namespace", "model"}
    assert MADE["templating"]["list"][0]["type"] == "datasource", "those behind it are asked of it"
