"""Threads that compute, at a lower priority than threads that answer callers."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.core.worker_threads")
# Steps of `nice` below the threads that answer callers: five give a third of the share.
COMPUTING, COMPUTING_BULK = 5, 10


class WorkerThreads:
    """Threads that each run one piece of work at a time, in order of arrival."""

    def __init__(self, count: int, name: str, *, behind: int = 0) -> None:
        """Start the threads; they end with the process, or after `close`.

        Args:
            count: number of threads.
            name: name of each thread, before its number.
            behind: steps for `lower_priority`.
        """
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(
                target=serve, args=(self._work.get, behind), name=f"{name}_{number}", daemon=True
            ).start()

    def put(self, work: Callable[[], None]) -> None:
        """Hand over some work; its errors are logged."""
        self._work.put(work)

    def close(self) -> None:
        """Let each thread end once it is idle."""
        for _ in range(self._count):
            self._work.put(None)


def lower_priority(steps: int = COMPUTING) -> None:
    """Give this thread, and all that it starts, a smaller share of a contended CPU.

    Threads that compute use it nearly always. Threads that answer callers need it for a moment,
    and should not wait milliseconds each time.
    """
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + steps)


def serve(take: Callable[[], Callable[[], None] | None], behind: int = 0) -> None:
    """Run each piece of work that `take` returns, until it returns None.

    Args:
        take: waits for work; errors of the work are logged.
        behind: steps for `lower_priority`.
    """
    if behind:
        lower_priority(behind)
    while (work := take()) is not None:
        try:
            work()
        except Exception as error:
            log.error("a worker's work failed", extra={"event": "call_failed", **describe(error)})
        del work  # it holds the request's data, and the next may come late
