"""Whether the process still moves. A restart is for one that does not; one that is idle, busy or loading is none.

Nothing is asked of the engine for this: a probe that stands in a queue behind work takes a busy service for a dead one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger("headlight_service.app.liveness")
LOOK_SECONDS = 1.0
Still = Callable[[], float]


class Liveness:
    """What /livez, the health service's "liveness" and headlight_stuck tell."""

    def __init__(self, stuck_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Alive.

        Args:
            stuck_seconds: for which there may be work and nothing moves.
            clock: seconds, monotonic.
        """
        self._stuck_seconds = stuck_seconds
        self._clock = clock
        self._watched: dict[str, Still] = {}
        self._looked = clock()

    def add(self, name: str, still: Still) -> None:
        """Watch one more worker: `still` tells for how many seconds it has had work and nothing moved. Called from any thread."""
        self._watched[name] = still

    @property
    def stuck_at(self) -> str | None:
        """Who does not move; None: all is well. For any thread: where the event loop itself stands still only others can tell."""
        if self._clock() - self._looked > self._stuck_seconds + LOOK_SECONDS:
            return "event loop"
        return next((name for name, still in [*self._watched.items()] if still() > self._stuck_seconds), None)

    async def watch(self, tell: Callable[[bool], None], pause: Callable[[float], Awaitable[None]]) -> None:
        """Tell whenever it changes whether the process is stuck, until cancelled.

        Args:
            tell: called with whether it is.
            pause: asyncio.sleep.
        """
        told = False
        while True:
            self._looked = self._clock()
            where = self.stuck_at
            if (where is not None) != told:
                told = where is not None
                tell(told)
                if told:
                    log.critical(
                        "there is work and nothing moves; not alive until it does",
                        extra={"event": "stuck", "where": where, "seconds": self._stuck_seconds},
                    )
                else:
                    log.warning("it moves again", extra={"event": "unstuck"})
            await pause(LOOK_SECONDS)
