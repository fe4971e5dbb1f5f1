"""Whether something that has work is getting on with it."""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """Signs of life of one worker, or of several that share their work.

    Nothing is probed: workers note them as a matter of course, under a lock of theirs. Read by any
    thread.

    Attributes:
        clock: seconds, monotonic.
        work: how many pieces there are to do.
        moved: when work came to a worker that had none, or some was started or done last. To give
            it up is no sign of life.
        patience: of work under way that takes longer than usual, how many times as long it may.
    """

    __slots__ = ("clock", "moved", "patience", "work")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.work = 0
        self.moved = clock()
        self.patience: list[float] = []

    @property
    def still_seconds(self) -> float:
        """Seconds for which nothing has moved, divided by the longest patience; 0 without work."""
        if not self.work:
            return 0.0
        return (self.clock() - self.moved) / max(self.patience.copy(), default=1.0)
