"""Progress of an export on a terminal."""

from __future__ import annotations

import re
import sys

import pytest

from headlight_export.progress import Lines


def test_lines_keep_within_the_width_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that wraps could not be drawn again: its first row would stay."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    progress = Lines()
    progress("a step of many words " * 5)
    progress.tell("what stays, with words " * 5)
    _, drawn, *rows = capsys.readouterr().out.replace("\r\x1b[2K", "\n").split("\n")
    assert re.match(r"\d\d:\d\d:\d\d  : a step of many", drawn)
    assert len(drawn) < 60
    assert [row[:10].strip() for row in rows] == [""] * len(rows)
    assert " ".join(" ".join(rows).split()) == " ".join(["what stays, with words"] * 5)
    assert max(map(len, rows)) <= 60


def test_steps_are_counted_and_details_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Lines(("reading", "tracing"))
    progress("tracing")
    progress("layer 1")
    step, detail = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  step 2 of 2: tracing", step)
    assert detail == " " * 10 + "layer 1"
