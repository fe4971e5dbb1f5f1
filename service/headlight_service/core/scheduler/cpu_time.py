"""How long processors worked on a batch, whatever else ran on the machine meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class Begun(NamedTuple):
    """What the clocks said."""

    at: float  # seconds
    worked: float  # seconds, of all processors together
    running: int  # batches, this one included


class Stopwatch:
    """Times batches."""

    def __init__(self, clock: Callable[[], float], worked: Callable[[], float] | None = None) -> None:
        """Nothing is timed yet.

        Args:
            clock: seconds, monotonic.
            worked: seconds that the process's processors have worked on batches; None: a device
                computes.
        """
        self._clock, self._worked = clock, worked

    def begin(self, running: int) -> Begun:
        """A batch begins, with which so many are running."""
        return Begun(self._clock(), 0.0 if self._worked is None else self._worked(), running)

    def effort(self, begun: Begun, done: float, running: int) -> float:
        """Return the seconds that a batch would have taken without waiting for a processor.

        At most those that it took; of several threads, the sum of theirs. Measured by what they
        took, bulk batches on a busy machine would shrink to single texts: a small one waits for its
        turn as long as a large one.

        Args:
            begun: when it began.
            done: when it was done.
            running: batches that are running, this one included, among which the work is shared.
        """
        took = done - begun.at
        if self._worked is None:
            return took
        return min(took, (self._worked() - begun.worked) / min(begun.running, running))


def processors() -> float:
    """Return the seconds that all threads but the main one, the event loop's, have worked.

    From any thread. Threads of calls are among them: beside many of these, batches of bulk seem
    dearer than they are.
    """
    main = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return time.process_time() - time.clock_gettime(main)
