"""Heartbeats of workers, by which the watchdog detects stalled ones."""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """Heartbeat of one worker, or of several that share their work.

    Nothing is probed: workers update it as they work, under their own lock. Any thread may read it.

    Attributes:
        clock: monotonic clock, in seconds.
        work: pieces of work to do.
        moved: last time that work began or ended, or came to an idle worker. Cancelled work does
            not count.
        allowances: factors by which work under way may outlast the usual time, if it is longer.
    """

    __slots__ = ("allowances", "clock", "moved", "work")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.work = 0
        self.moved = clock()
        self.allowances: list[float] = []

    @property
    def stalled_seconds(self) -> float:
        """Seconds without progress, divided by the largest allowance; 0 without work."""
        if not self.work:
            return 0.0
        return (self.clock() - self.moved) / max(self.allowances.copy(), default=1.0)
