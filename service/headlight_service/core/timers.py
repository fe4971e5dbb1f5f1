"""Timers that call back on a thread of their own."""

from __future__ import annotations

import bisect
import dataclasses
import operator
import threading
import time
from collections.abc import Callable

from headlight_service.core.worker_threads import serve

_when = operator.attrgetter("when")


@dataclasses.dataclass(slots=True, eq=False)
class Timer:
    """One call to be made later."""

    timers: Timers
    when: float
    act: Callable[[], None] | None  # None: the call was made or cancelled

    def cancel(self) -> None:
        """Drop the call and its references, unless it was made."""
        with self.timers.changed:
            if self.act is not None:
                self.act = None
                due = self.timers.due
                first = bisect.bisect_left(due, self.when, key=_when)
                del due[due.index(self, first)]


class Timers:
    """Any number of timers on one thread. Called from any thread.

    Attributes:
        changed: guards `due`, and wakes the thread.
        due: the waiting timers, by time. Inserting is quick even for thousands.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self.changed = threading.Condition()
        self.due = list[Timer]()
        self._closed = False
        threading.Thread(target=serve, args=(self._next,), name="timers", daemon=True).start()

    def call_at(self, when: float, act: Callable[[], None]) -> Timer:
        """Call `act` at a time on time.monotonic; it must not wait."""
        timer = Timer(self, when, act)
        with self.changed:
            bisect.insort(self.due, timer, key=_when)
            if self.due[0] is timer:
                self.changed.notify()
        return timer

    def close(self) -> None:
        """End the thread; later calls are never made."""
        with self.changed:
            self._closed = True
            self.changed.notify()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next call, and return it; None: closed."""
        with self.changed:
            while not self._closed:
                left = self.due[0].when - time.monotonic() if self.due else threading.TIMEOUT_MAX
                if left <= 0:
                    timer = self.due.pop(0)
                    act, timer.act = timer.act, None
                    return act
                self.changed.wait(min(left, threading.TIMEOUT_MAX))
        return None
