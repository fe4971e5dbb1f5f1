"""Checks of rules and runbooks that need no promtool.

`python -m deploy.check.rules` does the checks with promtool.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import headlight_service
from deploy.check import rules as check
from deploy.prometheus import sources
from headlight_service.telemetry.metrics import REASONS, SECONDS

COMPONENT = yaml.safe_load(
    (sources.OPERATOR.parent / "kustomization.yaml").read_text(encoding="utf-8")
)
BURNS = {
    "HeadlightErrorBudgetBurn": "calls|requests",
    "HeadlightOverloadBudgetBurn": "overload",
    "HeadlightLatencyBudgetBurn": "latency",
}
# The table of the SRE workbook: severity, burn rate, long window, short window.
WORKBOOK = [("page", "14.4", "1h", "5m"), ("page", "6", "6h", "30m"), ("ticket", "1", "3d", "6h")]


def copy(folder: Path) -> Path:
    return Path(shutil.copytree(check.RUNBOOKS, folder / "runbooks"))


def test_committed_rules_are_what_the_generator_writes() -> None:
    assert check.written_is_current() == []


def test_the_operator_gets_the_same_rules() -> None:
    made = yaml.safe_load(sources.OPERATOR.read_text(encoding="utf-8"))
    assert made["spec"]["groups"] == sources.groups()
    assert (made["apiVersion"], made["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")


@pytest.mark.parametrize("name", BURNS)
def test_burn_rates_are_those_of_the_sre_workbook(name: str) -> None:
    found = [rule for rule in sources.alerts() if rule["alert"] == name]
    assert len(found) == len(WORKBOOK)
    for rule, (severity, burn, long, short) in zip(found, WORKBOOK, strict=True):
        assert rule["labels"] == {"severity": severity, "window": long}
        assert "for" not in rule, "the short window is what waits"
        compared = re.findall(r'ratio_rate(\w+)\{sli=~?"([^"]+)"\} > ([\d.]+)', rule["expr"])
        assert compared == [(long, BURNS[name], burn), (short, BURNS[name], burn)]
        assert f"namespace_sli:headlight_bad_events:count{long} >= 10" in rule["expr"]


def test_every_rejection_reason_is_classified() -> None:
    """Every reason of the service is classified as failure, overload or error of the caller.

    A new reason needs a decision.
    """
    text = sources.RULE_FILES[0].read_text(encoding="utf-8")
    kinds = {frozenset(found.split("|")) for found in re.findall(r'reason(?:=~|!~)"([^"]+)"', text)}
    known = frozenset[str]().union(*kinds)
    assert sum(map(len, kinds)) == len(known), "a reason is of two kinds"
    assert known == set(REASONS)


def test_the_latency_target_is_a_bucket_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check.edges_are_buckets() == []
    monkeypatch.setattr(check, "SECONDS", tuple(edge for edge in SECONDS if edge != 0.5))
    assert set(check.edges_are_buckets()) == {
        "namespace_sli:headlight_bad_events:rate" + w + ": 0.5 is not a bucket edge in SECONDS"
        for w in ("5m", "1h")
    }


def test_unknown_metrics_and_reasons_are_reported_with_their_place() -> None:
    assert check.names_are_known() == []
    wrong = check.names_are_known(
        [
            ("here", "headlight_txets_total"),
            ("there", 'headlight_rejected_total{reason=~"internal|bored"}'),
        ]
    )
    assert wrong == [
        "here reads headlight_txets_total; no metric, rule or exporter has that name",
        "there: reason has no value 'bored'",
    ]


def test_every_alert_has_the_required_annotations() -> None:
    assert check.alerts_say_enough() == []
    wrong: list[dict[str, Any]] = [
        {
            "alert": "A",
            "labels": {"severity": "high"},
            "annotations": {"summary": "s", "runbook_url": "b.md"},
        }
    ]
    assert check.alerts_say_enough(wrong) == [
        "A: its severity must be one of page, ticket",
        "A: it has no description",
        "A: its runbook_url must be deploy/runbooks/A.md",
    ]


def test_every_alert_has_a_firing_and_a_silent_test() -> None:
    assert check.every_alert_is_tested() == []
    without = [path for path in sources.TEST_FILES if path.name != "latency.yaml"]
    assert check.every_alert_is_tested(without) == [
        "no test in which HeadlightLatencyBudgetBurn fires as a page",
        "no test in which HeadlightLatencyBudgetBurn fires as a ticket",
        "no test in which HeadlightLatencyBudgetBurn is silent",
    ]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert(tmp_path: Path) -> None:
    assert check.runbooks_are_complete() == []
    folder = copy(tmp_path)
    (folder / "HeadlightStuck.md").rename(folder / "HeadlightStick.md")
    text = (folder / "HeadlightBacklogHigh.md").read_text(encoding="utf-8")
    (folder / "HeadlightBacklogHigh.md").write_text(
        text.replace("## What users feel", "## Users"), encoding="utf-8"
    )
    assert check.runbooks_are_complete(folder) == [
        "HeadlightStuck.md is missing from deploy/runbooks",
        "deploy/runbooks/HeadlightStick.md is of no alert",
        "HeadlightBacklogHigh.md has no part 'What users feel'",
        "HeadlightStick.md does not say how to silence HeadlightStick",
    ]


def test_the_runbook_index_lists_every_runbook_with_its_severity() -> None:
    text = (check.RUNBOOKS / "README.md").read_text(encoding="utf-8")
    listed = {
        name: set(severities.split(", "))
        for name, severities in re.findall(
            r"^\| \[(\w+)\]\(\1\.md\) \| ([\w, ]+) \|", text, re.MULTILINE
        )
    }
    wanted: dict[str, set[str]] = {}
    for rule in sources.alerts():
        wanted.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    assert listed == wanted


def test_links_between_runbooks_resolve() -> None:
    for path in check.RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists() or link == "../base", (path.name, link)


def test_the_component_sets_the_runbook_url_of_every_alerting_group() -> None:
    [replacement] = COMPONENT["replacements"]
    [target] = replacement["targets"]
    groups = [
        group["name"]
        for group in sources.groups()
        if any("alert" in rule for rule in group["rules"])
    ]
    assert target["fieldPaths"] == [
        f"spec.groups.[name={name}].rules.*.annotations.runbook_url" for name in groups
    ]
    assert COMPONENT["configMapGenerator"][0]["literals"] == ["deploy=deploy"]


def test_runbook_commands_are_valid_shell() -> None:
    blocks = [
        (path.name, block)
        for path in sorted(check.RUNBOOKS.glob("*.md"))
        for block in re.findall(
            r"^```sh\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    ]
    assert {name for name, _ in blocks} == {path.name for path in check.RUNBOOKS.glob("*.md")}
    for name, block in blocks:
        done = subprocess.run(
            ["bash", "-n"], input=block, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name


def test_log_events_in_runbooks_exist_in_the_code() -> None:
    looked_for = {
        name
        for path in check.RUNBOOKS.glob("*.md")
        for name in re.findall(r'\.event == "(\w+)"', path.read_text(encoding="utf-8"))
    }
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(headlight_service.__file__).parent.rglob("*.py")
    )
    assert looked_for
    assert looked_for <= set(re.findall(r'"event": "(\w+)"', code))
