"""Timers that call back on a thread of their own."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.core.timers")
CANCELLED_KEPT = 64  # cancelled timers, beside as many as wait, before the heap is swept


class Timer:
    """One call to be made later."""

    __slots__ = ("_owner", "act", "when")

    def __init__(self, owner: Timers, when: float, act: Callable[[], None]) -> None:
        self._owner = owner
        self.when = when
        self.act: Callable[[], None] | None = act

    def cancel(self) -> None:
        """Drop the call, and what it refers to, unless it was made."""
        self._owner.drop(self)


class Timers:
    """Any number of timers over one thread. From any thread."""

    def __init__(self) -> None:
        """Start the thread; nothing is due."""
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0
        self._closed = False
        threading.Thread(target=self._run, name="timers", daemon=True).start()

    def call_at(self, when: float, act: Callable[[], None]) -> Timer:
        """Call `act` at a time on time.monotonic; it must not wait for anything."""
        timer = Timer(self, when, act)
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), timer))
            if self._due[0][2] is timer:
                self._changed.notify()
        return timer

    def drop(self, timer: Timer) -> None:
        """Cancel a timer of these."""
        with self._changed:
            if timer.act is None:
                return
            timer.act = None
            self._cancelled += 1
            if self._cancelled > CANCELLED_KEPT + len(self._due) // 2:
                self._due = [entry for entry in self._due if entry[2].act is not None]
                heapq.heapify(self._due)
                self._cancelled = 0

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
                if not self._due:
                    self._changed.wait()
                    continue
                left = self._due[0][0] - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                    continue
                timer = heapq.heappop(self._due)[2]
                act, timer.act = timer.act, None
                if act is not None:
                    return act
                self._cancelled -= 1
        return None
