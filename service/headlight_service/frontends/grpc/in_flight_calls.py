"""Calls in flight, which a drain waits for."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time

from headlight.errors import Reason, Unavailable
from headlight_service.frontends.grpc.transport.grpc_call import Call

REFUSED_SECONDS = 1.0  # limit on the drain's wait for a client that does not read its refusal
LOOK_SECONDS = 0.01


class InFlight:
    """The calls of Headlight's own service whose answers are not yet sent. Called from any thread.

    Health watches and reflection streams do not count: their length is up to the client.

    Attributes:
        closed: whether no more calls are admitted.
        announced: set once clients were asked to use other connections.
    """

    def __init__(self) -> None:
        self.closed = False
        self.announced = threading.Event()
        self._touched = time.monotonic()
        self._calls: dict[Call, float] = {}  # time until which each is waited for

    @property
    def count(self) -> int:
        """The number of calls to wait for."""
        now = time.monotonic()
        return sum(until > now for until in list(self._calls.values()))

    def admits(self) -> bool:
        """Return whether to read a new call. On its thread.

        During a drain it waits until clients were notified, so that quick refusals do not attract
        calls.
        """
        self._touched = time.monotonic()
        if self.closed:
            self.announced.wait()
        return not self.closed

    def enter(self, call: Call) -> None:
        """Count a call until it is over. Raises Unavailable: clients were notified before it."""
        self._touched = time.monotonic()
        self._calls[call] = math.inf
        call.acts.append(functools.partial(self._leave, call))
        if self.announced.is_set():
            raise Unavailable(Reason.ENDING)

    def refused(self, call: Call) -> None:
        """Record that a call waits only for its refusal to be taken."""
        if call in self._calls:
            self._calls[call] = time.monotonic() + REFUSED_SECONDS

    async def idle(self) -> None:
        """Wait until no calls are in flight."""
        while self.count:
            await asyncio.sleep(LOOK_SECONDS)

    async def quiet(self, seconds: float, limit: float) -> None:
        """Wait until no call has come, been refused or left for so long; at most `limit` seconds.

        Clients tend to send the next call after an answer: without activity, hardly any call is on
        its way.
        """
        start = self._touched = time.monotonic()
        while (left := min(self._touched + seconds, start + limit) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    def _leave(self, call: Call) -> None:
        self._touched = time.monotonic()
        self._calls.pop(call, None)
