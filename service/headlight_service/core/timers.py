"""Timers that call back on a thread of their own."""

from __future__ import annotations

import bisect
import dataclasses
import logging
import operator
import threading
import time
from collections.abc import Callable

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.core.timers")
_when = operator.attrgetter("when")


@dataclasses.dataclass(slots=True, eq=False)
class Timer:
    """One call to be made later."""

    owner: Timers
    when: float
    act: Callable[[], None] | None  # None: it was made, or cancelled

    def cancel(self) -> None:
        """Drop the call, and what it refers to, unless it was made."""
        self.owner.drop(self)


class Timers:
    """Any number of timers over one thread. From any thread."""

    def __init__(self) -> None:
        """Start the thread; nothing is due."""
        self._changed = threading.Condition()
        self._due: list[Timer] = []  # by time: even of thousands, moving the list is quick
        self._closed = False
        threading.Thread(target=self._run, name="timers", daemon=True).start()

    def call_at(self, when: float, act: Callable[[], None]) -> Timer:
        """Call `act` at a time on time.monotonic; it must not wait for anything."""
        timer = Timer(self, when, act)
        with self._changed:
            bisect.insort(self._due, timer, key=_when)
            if self._due[0] is timer:
                self._changed.notify()
        return timer

    def drop(self, timer: Timer) -> None:
        """Cancel a timer of these."""
        with self._changed:
            if timer.act is not None:
                timer.act = None
                first = bisect.bisect_left(self._due, timer.when, key=_when)
                del self._due[self._due.index(timer, first)]

    def close(self) -> None:
        """End the thread; what is not due yet is never called."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while (act := self._next()) is not None:
            try:
                act()
            except Exception as error:
                log.error("a timer failed", extra={"event": "call_failed", **describe(error)})
            del act

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next timer; None: closed."""
        with self._changed:
            while not self._closed:
                left = self._due[0].when - time.monotonic() if self._due else threading.TIMEOUT_MAX
                if left <= 0:
                    timer = self._due.pop(0)
                    act, timer.act = timer.act, None
                    return act
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
        return None
