"""Runner of all faults, or some, each in a process of its own.

Exit code 1 if a promise was broken. `nox -s faults` also writes the page.
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

from tests.faults.matrix import Row, rows
from tests.faults.record import FOLDER, read, write
from tests.system.processes import ROOT


def run(row: Row, folder: Path) -> None:
    """Run one row; at its limit, end it and all processes it started."""
    command = [sys.executable, "-m", "tests.faults.one", row.fault, str(folder)]
    (folder / f"{row.fault}.json").unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(timeout=row.limit_seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            # A group of its own, by start_new_session; mostly empty by now.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if read(folder, row.fault) is None:
        failed = (
            f"no result within {row.limit_seconds} s"
            if process.returncode == -9
            else "the run itself failed"
        )
        fields = {"title": row.title, "made": row.made, "promise": row.promise, "state": row.state}
        empty = {"seen": "", "figures": {}, "reason": row.reason, "note": "", "ok": False}
        write(folder, row.fault, **fields, **empty, problems=[failed], seconds=row.limit_seconds)


def named(fault: str, only: Iterable[str]) -> bool:
    """Return whether a fault is among the given names, by itself or as a part."""
    return any(fault == name or fault.rstrip("abcdefgh") == name for name in only)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="FAULT", help="such as F13b; F13 is all of its parts"
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the JSON files are written")
    options = parser.parse_args()
    chosen = [row for row in rows() if options.only is None or named(row.fault, options.only)]
    if not chosen:
        parser.error(f"--only: no such fault; there are {' '.join(row.fault for row in rows())}")
    options.out.mkdir(parents=True, exist_ok=True)
    # Also ends the processes that the fault started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    broken = 0
    for row in chosen:
        run(row, options.out)
        found = read(options.out, row.fault)
        assert found is not None
        said = found["seen"] or found["reason"]
        print(
            (
                f"{row.fault} {row.title}: {'; '.join(found['problems']) or said} "
                f"({found['seconds']} s)"
            ),
            flush=True,
        )
        broken += bool(found["problems"])
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
