"""Runner of one fault in this process.

`python -m tests.faults.one FAULT [FOLDER]` writes its record.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import time
import traceback
from pathlib import Path

from tests.faults.driven import run_tests
from tests.faults.matrix import Row, rows
from tests.faults.record import FOLDER, NotPossible, Outcome, State, write


def outcome_of(row: Row) -> tuple[State, Outcome]:
    """Make the fault."""
    try:
        if row.tests:
            return row.state, run_tests(row.tests, row.asserts)
        module, _, name = row.measure.partition(":")
        measure = getattr(importlib.import_module(f"tests.faults.{module}"), name)
        found = measure()
        return row.state, asyncio.run(found) if inspect.iscoroutine(found) else found
    except NotPossible as reason:
        return "not possible here", Outcome("", note=str(reason))
    except Exception as error:  # a failed run is a result, shown on the page
        traceback.print_exc()
        return row.state, Outcome("", problems=[f"{type(error).__name__}: {error}"[:400]])


def run_one(fault: str, folder: Path = FOLDER) -> bool:
    """Make one fault and write its record; return whether the promise was kept."""
    [row] = [each for each in rows() if each.fault == fault]
    begun = time.monotonic()
    state, outcome = outcome_of(row)
    write(
        folder,
        fault,
        title=row.title,
        made=row.made,
        promise=row.promise,
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
    sys.exit(0 if run_one(sys.argv[1], Path(*sys.argv[2:3]) if sys.argv[2:] else FOLDER) else 1)
