"""CPU-time accounting of batches, independent of other load on the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class Begun(NamedTuple):
    """Clock readings at the start of a batch."""

    at: float  # seconds
    worked: float  # CPU seconds of all worker threads together
    running: int  # batches, this one included


class Stopwatch:
    """Timer of batches."""

    def __init__(
        self, clock: Callable[[], float], worked: Callable[[], float] | None = None
    ) -> None:
        """Start without a reading.

        Args:
            clock: monotonic clock, in seconds.
            worked: returns the process's CPU seconds for batches; None: a device computes.
        """
        self._clock, self._worked = clock, worked

    def begin(self, running: int) -> Begun:
        """Return the readings for a batch that begins; `running`: batches, this one included."""
        return Begun(self._clock(), 0.0 if self._worked is None else self._worked(), running)

    def cpu_seconds(self, begun: Begun, done: float, running: int) -> float:
        """Return the seconds that a batch would have taken without waiting for a processor.

        It is the sum over the batch's threads, but at most the elapsed time. By elapsed time alone,
        bulk batches on a busy machine would shrink to single texts: a small batch waits for its
        turn as long as a large one.

        Args:
            begun: its readings at the start.
            done: its end.
            running: running batches, this one included, among which the work is shared.
        """
        took = done - begun.at
        if self._worked is None:
            return took
        return min(took, (self._worked() - begun.worked) / min(begun.running, running))


def cpu_seconds_of_workers() -> float:
    """Return the CPU seconds of all threads except the main one, which runs the event loop.

    Called from any thread. Threads of calls are included: with many of them, bulk batches appear
    more expensive than they are.
    """
    main = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return time.process_time() - time.clock_gettime(main)
