"""The calls that the end of the service waits for."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time

from headlight.errors import Unavailable
from headlight_service.frontends.grpc.transport.grpc_call import Call

REFUSED_SECONDS = 1.0  # a caller that does not read its refusal holds up the end no longer
LOOK_SECONDS = 0.01
ENDING = "this replica is shutting down; try another, or this one later"


class InFlight:
    """The calls of our own service whose answers are not yet sent. From any thread.

    Health watches and reflection streams do not count: they last as long as their client likes.

    Attributes:
        closed: no further ones are let in.
        told: set once clients have been told to use other connections.
    """

    def __init__(self) -> None:
        self.closed = False
        self.told = threading.Event()
        self._touched = time.monotonic()
        self._calls: dict[Call, float] = {}  # when each is waited for no longer

    @property
    def count(self) -> int:
        """How many are waited for."""
        now = time.monotonic()
        return sum(until > now for until in list(self._calls.values()))

    def admits(self) -> bool:
        """Return whether a call that has just come may be read; False only when clients know. On its thread.

        A refusal takes no time, and so clients would send most of their calls to a replica that
        refuses.
        """
        self._touched = time.monotonic()
        if self.closed:
            self.told.wait()
        return not self.closed

    def enter(self, call: Call) -> None:
        """Count in a call until it is over. Raises Unavailable: its message came when clients had been told."""
        self._touched = time.monotonic()
        self._calls[call] = math.inf
        call.acts.append(functools.partial(self._leave, call))
        if self.told.is_set():
            raise Unavailable(ENDING)

    def refused(self, call: Call) -> None:
        """Note that a call has only its refusal to take."""
        if call in self._calls:
            self._calls[call] = time.monotonic() + REFUSED_SECONDS

    async def idle(self) -> None:
        """Wait until there are none."""
        while self.count:
            await asyncio.sleep(LOOK_SECONDS)

    async def quiet(self, seconds: float, limit: float) -> None:
        """Wait until for so long no call has come, been refused or left; at most `limit` seconds.

        Callers tend to send the next call when one is answered: if nothing happens, hardly a call is
        on its way.
        """
        start = self._touched = time.monotonic()
        while (left := min(self._touched + seconds, start + limit) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    def _leave(self, call: Call) -> None:
        self._touched = time.monotonic()
        self._calls.pop(call, None)
