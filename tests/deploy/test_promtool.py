"""The promtool checks find wrong rules.

`python -m deploy.check.rules` checks that the committed rules pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.check import rules as check
from deploy.prometheus import sources


def test_an_unparsable_expression_is_reported_with_its_place() -> None:
    assert check.parsed([("here", "sum(up)"), ("there", "max(up)")]) == []
    [problem] = check.parsed([("here", "sum(up)"), ("there", "sum(up")])
    assert "unclosed left parenthesis" in problem


def test_an_alert_that_fails_its_test_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [latency] = [path for path in sources.TEST_FILES if path.name == "latency.yaml"]
    text = latency.read_text(encoding="utf-8").replace("../", f"{sources.HERE}/")
    assert text.count("'0+300x30'") == 1, "of 400 a step, so that 100 are late"
    changed = tmp_path / "latency.yaml"
    monkeypatch.setattr(sources, "TEST_FILES", (changed,))
    changed.write_text(text, encoding="utf-8")
    assert check.alerts_fire_and_do_not() == []
    changed.write_text(text.replace("'0+300x30'", "'0+399x30'"), encoding="utf-8")
    [problem] = check.alerts_fire_and_do_not()
    assert "a quarter slower than the edge pages" in problem


def test_a_rule_that_promtool_rejects_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = tmp_path / "rules.yaml"
    twice.write_text(
        "groups: [{name: a, rules: [{record: b, expr: up}, {record: b, expr: up}]}]",
        encoding="ascii",
    )
    monkeypatch.setattr(sources, "RULE_FILES", (twice,))
    [problem] = check.rules_are_valid()
    assert "duplicate rule" in problem
