"""Liveness: the watchdog that reports a stalled process.

Only a stalled process needs a restart, not one that is idle, busy or loading. The engine is not
probed: a probe that waits in a queue behind work takes a busy service for a dead one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger("headlight_service.app.liveness")
LOOK_SECONDS = 1.0
StalledSeconds = Callable[[], float]


class Liveness:
    """Watchdog behind /livez, the health service's "liveness" and headlight_stuck."""

    def __init__(self, stuck_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start alive.

        Args:
            stuck_seconds: limit on the time without progress while there is work.
            clock: monotonic clock, in seconds.
        """
        self._stuck_seconds = stuck_seconds
        self._clock = clock
        self._watched: dict[str, StalledSeconds] = {}
        self._looked = clock()

    def add(self, name: str, stalled_seconds: StalledSeconds) -> None:
        """Watch one more worker; callable from any thread.

        `stalled_seconds` returns the seconds without progress while the worker has work.
        """
        self._watched[name] = stalled_seconds

    @property
    def stalled_at(self) -> str | None:
        """The stalled worker; None: none is. Other threads detect a stalled event loop with it."""
        if self._clock() - self._looked > self._stuck_seconds + LOOK_SECONDS:
            return "event loop"
        return next(
            (name for name, seconds in [*self._watched.items()] if seconds() > self._stuck_seconds),
            None,
        )

    async def watch(
        self, tell: Callable[[bool], None], pause: Callable[[float], Awaitable[None]]
    ) -> None:
        """Report each change between stalled and not, until cancelled.

        Args:
            tell: called with the new state.
            pause: asyncio.sleep.
        """
        reported = False
        while True:
            self._looked = self._clock()
            where = self.stalled_at
            if (where is not None) != reported:
                reported = where is not None
                tell(reported)
                if reported:
                    log.critical(
                        "work is pending but nothing progresses; liveness fails until it does",
                        extra={"event": "stuck", "where": where, "seconds": self._stuck_seconds},
                    )
                else:
                    log.warning("progress resumed", extra={"event": "unstuck"})
            await pause(LOOK_SECONDS)
