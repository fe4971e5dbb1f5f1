"""Watchdog that ends a hanging run and its child processes: a service would keep its GPU memory."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

STOP_SECONDS = 5  # for those processes to end by themselves


@contextlib.contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """End this process, with status 1 and all stack traces, if the block takes longer.

    A thread does it: the main one, waiting for a device, would miss a signal. If no Python thread
    can run, faulthandler does it a while later, but ends no child processes.
    """
    ending = threading.Timer(seconds, _end, (seconds,))
    ending.daemon = True
    faulthandler.dump_traceback_later(seconds + 3 * STOP_SECONDS, exit=True)
    ending.start()
    try:
        yield
    finally:
        ending.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(seconds: float) -> None:
    faulthandler.dump_traceback(all_threads=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + STOP_SECONDS
        for child in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        while children() and time.monotonic() < until:
            time.sleep(0.05)
    print(
        f"ended: not done after {seconds:.0f} s; what was measured is written",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


def children() -> list[int]:
    """Return the ids of this process's running children."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            # The name, in brackets, may hold anything; the state and the parent follow it.
            state, parent = (
                path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            )
            if int(parent) == os.getpid() and state != "Z":
                pids.append(int(path.parent.name))
    return pids
