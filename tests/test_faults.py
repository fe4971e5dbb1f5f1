"""The fault matrix: a row for every fault, and a page that matches the records."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.__main__ import named
from tests.faults.matrix import Row, rows
from tests.faults.one import outcome_of
from tests.faults.record import NotPossible, write
from tests.faults.report import page
from tests.system.processes import ROOT

FAULTS = 26
RESULT: dict[str, Any] = {
    "title": "",
    "made": "",
    "promise": "",
    "seen": "7 calls | 0 wrong",
    "figures": {},
    "state": "measured",
    "reason": "",
    "note": "",
    "problems": [],
    "ok": True,
    "seconds": 1.5,
}


def number(row: Row) -> int:
    return int("".join(filter(str.isdigit, row.fault)))


def line_of(text: str, fault: str) -> str:
    [found] = [line for line in text.splitlines() if line.startswith(f"| {fault} ")]
    return found


def test_every_fault_has_its_own_row() -> None:
    assert {number(row) for row in rows()} == set(range(1, FAULTS + 1))
    assert len({row.fault for row in rows()}) == len(rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.fault)
def test_rows_name_existing_tests_and_functions(row: Row) -> None:
    assert bool(row.measure) != bool(row.tests)
    assert row.state != "injected" or row.reason
    if row.measure:
        module, _, name = row.measure.partition(":")
        assert callable(getattr(importlib.import_module(f"tests.faults.{module}"), name))
    for node in row.tests:
        path, _, test = node.partition("::")
        assert (ROOT / path).exists()
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_row_without_a_record_is_shown_as_not_measured(tmp_path: Path) -> None:
    write(tmp_path, "F5", **RESULT)
    text = page(tmp_path)
    assert "| 7 calls \\| 0 wrong | measured | `--only F5` |" in line_of(text, "F5")
    assert line_of(text, "F12").endswith("|  | not measured | `--only F12` |")
    assert f"1 of {len(rows())} rows were run" in text


def test_a_broken_promise_is_shown_on_the_page(tmp_path: Path) -> None:
    write(tmp_path, "F5", **RESULT | {"problems": ["3 calls never ended"], "ok": False})
    text = page(tmp_path)
    assert "**broken**" in line_of(text, "F5")
    assert "Promises kept: 0; broken: 1 (F5)." in text
    assert "- **F5** Broken: 3 calls never ended." in text


def test_a_fault_that_is_not_possible_refers_to_the_notes(tmp_path: Path) -> None:
    state = {"seen": "", "state": "not possible here", "reason": "there is no GPU here"}
    write(tmp_path, "F11b", **RESULT | state | {"ok": False})
    text = page(tmp_path)
    assert "| see the notes | not possible here | `--only F11b` |" in line_of(text, "F11b")
    assert "- **F11b** There is no GPU here." in text
    assert "Not possible on this machine: 1 (F11b)." in " ".join(text.split())


def test_a_record_names_its_command_and_versions(tmp_path: Path) -> None:
    write(tmp_path, "F5", **RESULT)
    found = json.loads((tmp_path / "F5.json").read_text(encoding="utf-8"))
    assert found["command"] == "python -m tests.faults --only F5"
    assert found["commit"]
    assert found["versions"]["grpcio"]


def test_a_fault_that_is_not_possible_here_gives_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def impossible() -> None:
        raise NotPossible("there is no GPU here")

    monkeypatch.setattr("tests.faults.machine.device", impossible)
    state, outcome = outcome_of(Row("F11b", "", "", "", measure="machine:device"))
    assert (state, outcome.note, outcome.problems) == (
        "not possible here",
        "there is no GPU here",
        [],
    )


def test_a_failed_run_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise OSError("no more files")

    monkeypatch.setattr("tests.faults.machine.device", failing)
    _, outcome = outcome_of(Row("F11b", "", "", "", measure="machine:device"))
    assert outcome.problems == ["OSError: no more files"]


def test_a_fault_number_selects_exactly_its_parts() -> None:
    assert named("F13b", ["F13"])
    assert named("F1", ["F1"])
    assert not named("F13b", ["F1"])
    assert not named("F13b", ["F13a"])
