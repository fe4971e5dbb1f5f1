"""Rows that depend on the machine: a real GPU (F11b) and a short soak (F23)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headlight.runtime.providers.cuda_session import devices
from tests.faults.record import FOLDER, NotPossible, Outcome
from tests.system.processes import ROOT

SOAK_MINUTES = 2


def device() -> Outcome:
    """Report that a real device is not broken on purpose."""
    if not devices().count:
        raise NotPossible("there is no GPU here")
    raise NotPossible(
        "nothing here makes a real GPU fail; `nox -s gpu-bench` runs on one that works"
    )


def soak() -> Outcome:
    """Run a short `nox -s soak`, with a report of its own."""
    report = FOLDER / "soak.md"
    options = ("--minutes", str(SOAK_MINUTES), "--out", str(report))
    command = [sys.executable, "-m", "tests.soak", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not report.exists():
        raise AssertionError(f"the soak ended with {done.returncode}: {done.stderr[-300:]}")
    return told(report, done.returncode)


def told(report: Path, code: int) -> Outcome:
    """Return the summary from the report of a soak."""
    lines = report.read_text(encoding="utf-8").splitlines()
    calls = next(line for line in lines if "calls started" in line).partition(";")[0]
    memory = next(line for line in lines if line.startswith("Memory")).partition(";")[0]
    problems = (
        [line.removeprefix("- ") for line in lines[lines.index("**FAILED.**") + 1 :]]
        if code
        else []
    )
    problems = (
        [line for line in problems if line][: problems.index("")] if "" in problems else problems
    )
    return Outcome(f"{calls}, each answer compared. {memory}", {"report": lines}, problems)
