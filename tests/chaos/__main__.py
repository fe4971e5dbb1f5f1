"""Runner of all faults, or some, each in a process of its own; writes the page of their results.

Exit code 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chaos.matrix import Row, rows
from tests.chaos.record import FOLDER, LONG_FOLDER, read, write
from tests.chaos.report import LONG_PAGE, PAGE, long_page, page
from tests.system.processes import ROOT

LONG_HOURS = 12  # after which a long form is ended


def run(row: Row, folder: Path, size: tuple[float, int] | None) -> None:
    """Run one row; at its limit, end it and all processes it started."""
    command = [sys.executable, "-m", "tests.chaos.one", row.fault, str(folder)]
    limit = row.limit_seconds if size is None else 3600 * LONG_HOURS
    (folder / f"{row.fault}.json").unlink(missing_ok=True)
    process = subprocess.Popen(
        [*command, *map(str, size or ())],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            # A group of its own, by start_new_session; mostly empty by now.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if read(folder, row.fault) is None:
        killed = process.returncode == -signal.SIGKILL
        failed = f"no result within {limit} s" if killed else "the run itself failed"
        empty: dict[str, Any] = {"seen": "", "figures": {}, "note": "", "ok": False}
        write(
            folder,
            row,
            **empty,
            state=row.state,
            reason=row.reason,
            problems=[failed],
            seconds=limit,
        )


def named(fault: str, only: Iterable[str]) -> bool:
    """Return whether a fault is among the given names, by itself or as a part."""
    return any(fault == name or fault.rstrip("abcdefgh") == name for name in only)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="FAULT", help="such as F13b; F13 is all of its parts"
    )
    parser.add_argument(
        "--long", action="store_true", help="the long forms, of the soak and of mutated traffic"
    )
    parser.add_argument("--times", type=float, default=1.0, help="the amount of the long forms")
    parser.add_argument("--seed", type=int, default=1, help="of the long forms")
    parser.add_argument("--folder", type=Path, help="where the JSON files are written")
    parser.add_argument("--page", type=Path, help="the page that is written from them")
    parser.add_argument("--draw", action="store_true", help="write only the page")
    options = parser.parse_args()
    folder = options.folder or (LONG_FOLDER if options.long else FOLDER)
    chosen = [
        row
        for row in rows()
        if (row.long or not options.long) and named(row.fault, options.only or [row.fault])
    ]
    if not chosen:
        parser.error(f"--only: no such fault; there are {' '.join(row.fault for row in rows())}")
    folder.mkdir(parents=True, exist_ok=True)
    # Also ends the processes that the fault started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    broken = 0
    for row in () if options.draw else chosen:
        run(row, folder, (options.times * row.times, options.seed) if options.long else None)
        found = read(folder, row.fault)
        assert found is not None
        result = "; ".join(found["problems"]) or found["seen"] or found["reason"]
        print(f"{row.fault} {row.title}: {result} ({found['seconds']} s)", flush=True)
        broken += bool(found["problems"])
    target, text = (LONG_PAGE, long_page) if options.long else (PAGE, page)
    (options.page or target).write_text(text(folder), encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
