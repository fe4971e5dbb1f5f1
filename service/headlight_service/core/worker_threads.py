"""Threads that compute, and how far they stand behind threads that answer callers."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.core.worker_threads")
# Steps of `nice` behind the threads that answer callers: five are a third of the share.
COMPUTING, COMPUTING_BULK = 5, 10


class WorkerThreads:
    """Threads that each run one piece of work at a time, in the order in which it came."""

    def __init__(self, count: int, name: str, *, behind: int = 0) -> None:
        """Start the threads; they end with the process, or after `close`.

        Args:
            count: of threads.
            name: of each, before its number.
            behind: see `stand_behind`.
        """
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=serve, args=(self._work.get, behind), name=f"{name}_{number}", daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Hand over some work; what it raises is logged."""
        self._work.put(work)

    def close(self) -> None:
        """Let each thread end once it has nothing to do."""
        for _ in range(self._count):
            self._work.put(None)


def stand_behind(steps: int = COMPUTING) -> None:
    """Give this thread, and all that it starts, a smaller share of a CPU that several want.

    Threads that compute have it nearly always. Those that answer callers want it for a moment, and
    should not wait some milliseconds for it each time.
    """
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + steps)


def serve(take: Callable[[], Callable[[], None] | None], behind: int = 0) -> None:
    """Run what `take` returns, one piece of work after another, until it returns None.

    Args:
        take: waits for work; what that raises is logged.
        behind: see `stand_behind`.
    """
    if behind:
        stand_behind(behind)
    while (work := take()) is not None:
        try:
            work()
        except Exception as error:
            log.error("a worker's work failed", extra={"event": "call_failed", **describe(error)})
        del work  # it holds what was worked on, and the next may be long in coming
