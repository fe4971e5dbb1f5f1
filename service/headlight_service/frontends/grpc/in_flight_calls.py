"""The calls that the end of the service waits for."""

from __future__ import annotations

import asyncio
import time

from headlight.errors import Unavailable
from headlight_service.frontends.grpc.transport.grpc_call import Call


class InFlight:
    """The calls of our own service whose answers are not yet sent.

    Health watches and reflection streams do not count: they last as long as their client likes.

    Attributes:
        count: how many.
        idle: set while there are none.
        closed: no further ones are let in.
        told: set once clients have been told to use other connections.
    """

    def __init__(self) -> None:
        self._touched = time.monotonic()
        self.count = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.closed = False
        self.told = asyncio.Event()

    async def admit(self) -> None:
        """Let a call in, or refuse it, but not before its client knows better than to come here again.

        A refusal takes no time, and so a replica that refuses is the one that is free: clients would send most of their calls to it,
        again and again, until they have no more tries.

        Raises:
            Unavailable: closed.
        """
        self._touched = time.monotonic()
        if self.closed:
            self.enter()
            try:
                await self.told.wait()
            finally:
                self.leave()
            raise Unavailable("this replica is shutting down; try another, or this one later")

    def enter(self) -> None:
        """Count in a call that was let in."""
        self.count += 1
        self.idle.clear()

    def leave(self) -> None:
        """Count a call out, once its answer has been sent."""
        self._touched = time.monotonic()
        self.count -= 1
        if self.count == 0:
            self.idle.set()

    async def quiet(self, seconds: float, limit: float) -> None:
        """Wait until for so long no call has come, been refused or left; at most until `limit` seconds have passed.

        Callers tend to send the next call when one is answered: where nothing happens, hardly a call is on its way.
        """
        start = self._touched = time.monotonic()
        while (left := min(self._touched + seconds, start + limit) - time.monotonic()) > 0:
            await asyncio.sleep(left)


class Stay:
    """That one call is in flight: from its message until its answer is out, or earlier where nobody takes that."""

    def __init__(self, in_flight: InFlight, call: Call) -> None:
        self._in_flight = in_flight
        self._call = call
        self._inside = False

    async def enter(self) -> None:
        """Count the call in. Raises Unavailable as `InFlight.admit` does."""
        await self._in_flight.admit()
        self._in_flight.enter()
        self._inside = True
        self._call.when_over(self.leave)  # only then, not when the handler has returned, may the server stop

    def leave(self) -> None:
        """Count it out, once."""
        if self._inside:
            self._inside = False
            self._in_flight.leave()
