"""Runner of one fault in this process.

`python -m tests.chaos.one FAULT FOLDER` writes its record; with `TIMES SEED` that of its long form.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from xml.etree import ElementTree

from tests.chaos.matrix import Row, rows
from tests.chaos.record import NotPossible, Outcome, State, write
from tests.system.processes import ROOT


def outcome_of(row: Row, *size: float) -> tuple[State, Outcome]:
    """Make the fault; with a size, times and seed, in its long form."""
    try:
        if row.tests and not size:
            return row.state, run_tests(row.tests, row.asserts)
        module, _, name = (row.long if size else row.measure).partition(":")
        measure = getattr(importlib.import_module(f"tests.chaos.faults.{module}"), name)
        found = measure(*size)
        return row.state, asyncio.run(found) if inspect.iscoroutine(found) else found
    except NotPossible as reason:
        return "not possible here", Outcome("", note=str(reason))
    except Exception as error:  # a failed run is a result, shown on the page
        traceback.print_exc()
        return row.state, Outcome("", problems=[f"{type(error).__name__}: {error}"[:400]])


def run_tests(nodes: tuple[str, ...], asserts: str) -> Outcome:
    """Run the tests and count them.

    Figures that they record as properties are included.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={file}",
            *nodes,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not file.exists():
            return Outcome(
                "", problems=[f"pytest ended with {done.returncode}: {done.stdout[-300:]}"]
            )
        cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    failed = [f"{case.get('name')} failed" for case in cases if case.find("failure") is not None]
    failed += [f"{case.get('name')} broke" for case in cases if case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    if skipped:
        failed.append(f"{skipped} tests were skipped")
    if not cases or done.returncode not in (0, 1):
        failed.append(f"pytest ended with {done.returncode}")
    properties = {
        str(found.get("name")): found.get("value")
        for case in cases
        for found in case.iter("property")
    }
    count = f"{len(cases)} tests" if len(cases) > 1 else "1 test"
    told = "".join(f"; {name}: {value}" for name, value in properties.items())
    return Outcome(
        f"{count}: {asserts}{told}",
        {"tests": len(cases), "failed": len(failed), **properties},
        failed,
    )


def run_one(fault: str, folder: Path, *size: float) -> bool:
    """Make one fault and write its record; return whether the promise was kept."""
    [row] = [each for each in rows() if each.fault == fault]
    begun = time.monotonic()
    state, outcome = outcome_of(row, *size)
    write(
        folder,
        row,
        size=size,
        seen=outcome.seen,
        figures=outcome.figures,
        state=state,
        reason=outcome.note if state == "not possible here" else row.reason,
        note=outcome.note,
        problems=outcome.problems,
        ok=not outcome.problems and state != "not possible here",
        seconds=round(time.monotonic() - begun, 1),
    )
    return not outcome.problems


if __name__ == "__main__":
    fault, folder, *size = sys.argv[1:]
    amount = [float(size[0]), int(size[1])] if size else []
    sys.exit(0 if run_one(fault, Path(folder), *amount) else 1)
