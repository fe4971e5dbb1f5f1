"""The fault matrix: a row for every fault, and a page that matches the records."""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.__main__ import named
from tests.chaos.matrix import Row, rows
from tests.chaos.one import outcome_of
from tests.chaos.record import NotPossible, write
from tests.chaos.report import long_page, page
from tests.system.processes import ROOT

FAULTS = 28
RESULT: dict[str, Any] = {
    "seen": "7 calls | 0 wrong",
    "figures": {},
    "state": "measured",
    "reason": "",
    "note": "",
    "problems": [],
    "ok": True,
    "seconds": 1.5,
}


def recorded(folder: Path, fault: str, **changed: Any) -> str:
    """Write a record, and return the page."""
    write(folder, row_of(fault), **RESULT | changed)
    return page(folder)


def row_of(fault: str) -> Row:
    [row] = [row for row in rows() if row.fault == fault]
    return row


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
    for measure in filter(None, (row.measure, row.long)):
        module, _, name = measure.partition(":")
        assert callable(getattr(importlib.import_module(f"tests.chaos.faults.{module}"), name))
    for node in row.tests:
        path, _, test = node.partition("::")
        assert (ROOT / path).exists()
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_row_without_a_record_is_shown_as_not_measured(tmp_path: Path) -> None:
    text = recorded(tmp_path, "F5")
    assert "| 7 calls \\| 0 wrong | measured | `--only F5` |" in line_of(text, "F5")
    assert line_of(text, "F12").endswith("|  | not measured | `--only F12` |")
    assert f"1 of {len(rows())} rows were run" in text


def test_a_broken_promise_is_shown_on_the_page(tmp_path: Path) -> None:
    text = recorded(tmp_path, "F5", problems=["3 calls never ended"], ok=False)
    assert "**broken**" in line_of(text, "F5")
    assert "Promises kept: 0; broken: 1 (F5)." in text
    assert "- **F5** Broken: 3 calls never ended." in text


def test_a_fault_that_is_not_possible_refers_to_the_notes(tmp_path: Path) -> None:
    state = {"seen": "", "state": "not possible here", "reason": "there is no GPU here"}
    text = recorded(tmp_path, "F11b", **state, ok=False)
    assert "| see the notes | not possible here | `--only F11b` |" in line_of(text, "F11b")
    assert "- **F11b** There is no GPU here." in text
    assert "Not possible on this machine: 1 (F11b)." in " ".join(text.split())


def test_a_record_names_its_command_and_versions(tmp_path: Path) -> None:
    recorded(tmp_path, "F5")
    found = json.loads((tmp_path / "F5.json").read_text(encoding="utf-8"))
    assert found["command"] == "python -m tests.chaos --only F5"
    assert found["commit"]
    assert found["versions"]["grpcio"]


def test_a_long_form_has_a_page_and_a_command_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, row_of("F23"), size=(30.0, 7), **RESULT)
    text = long_page(tmp_path)
    assert line_of(text, "F23").endswith("| `--only F23 --long --times 2 --seed 7` |")
    assert "F5" not in text


@pytest.mark.parametrize(
    ("measure", "state", "note", "problems"),
    [
        ("impossible", "not possible here", "there is no GPU here", []),
        ("failing", "measured", "", ["OSError: no more files"]),
    ],
)
def test_a_fault_that_cannot_be_made_is_not_a_broken_promise_but_a_failed_run_is(
    monkeypatch: pytest.MonkeyPatch, measure: str, state: str, note: str, problems: list[str]
) -> None:
    module = types.ModuleType("tests.chaos.faults.of_a_test")
    module.__dict__.update(impossible=impossible, failing=failing)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found, outcome = outcome_of(Row("F1", "", "", "", measure=f"of_a_test:{measure}"))
    assert (found, outcome.note, outcome.problems) == (state, note, problems)


def impossible() -> None:
    raise NotPossible("there is no GPU here")


def failing() -> None:
    raise OSError("no more files")


def test_a_fault_number_selects_exactly_its_parts() -> None:
    assert named("F13b", ["F13"])
    assert named("F1", ["F1"])
    assert not named("F13b", ["F1"])
    assert not named("F13b", ["F13a"])
