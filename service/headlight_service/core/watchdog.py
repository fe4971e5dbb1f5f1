"""Whether something that has work is getting on with it."""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """Of one worker, or of several that share their work. Nothing is tried out: whoever works says so as a matter of course.

    Written by the event loop's thread, read by any.
    """

    __slots__ = ("_clock", "_moved", "_patience", "_work")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """There is nothing to do. `clock`: seconds, monotonic."""
        self._clock = clock
        self._work = 0
        self._patience: list[float] = []  # of what is worked on and takes longer than usual
        self._moved = clock()

    def begin(self, patience: float = 1.0) -> None:
        """There is one more thing to do. Where it is the only one, the time that none of them moves begins.

        Args:
            patience: how many times as long as others it may take.
        """
        if not self._work:
            self._moved = self._clock()
        self._work += 1
        if patience > 1.0:
            self._patience.append(patience)

    def end(self, patience: float = 1.0) -> None:
        """One of them, begun with this patience, is no longer to be done; that somebody gave it up is no sign of life."""
        self._work -= 1
        if patience > 1.0:
            self._patience.remove(patience)

    def beat(self) -> None:
        """Something was started, or is done."""
        self._moved = self._clock()

    @property
    def still_seconds(self) -> float:
        """For how long nothing has moved, in terms of what does not take longer than usual; 0 where nothing is to be done."""
        if not self._work:
            return 0.0
        return (self._clock() - self._moved) / max(self._patience, default=1.0)
