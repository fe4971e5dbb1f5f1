"""The mix of calls: kinds, frequencies and allowed statuses."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import grpc

from headlight import AsyncClient
from tests.chaos.traffic.callers import SHED, Callers
from tests.chaos.traffic.ledger import Ledger
from tests.chaos.traffic.misbehaving import Faults
from tests.chaos.traffic.reference import Reference

STALL_SECONDS = 1.0
# A queue that a few callers can fill, so that requests are shed.
OPTIONS = (
    "--max-queue-tokens",
    "16384",
    "--max-request-tokens",
    "8192",
    "--stall-seconds",
    str(STALL_SECONDS),
)


class Kind(NamedTuple):
    """Kind of call."""

    name: str
    weight: float
    call: Callable[[], Coroutine[Any, Any, str]]
    allowed: set[str]


def kinds(good: Callers, bad: Faults) -> list[Kind]:
    """Return all kinds; six calls in ten are valid."""
    refused = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}
    return [
        Kind("embed", 30, good.embed, SHED),
        Kind("attend", 12, good.attend, SHED),
        Kind("both", 10, good.both, SHED),
        Kind("tokenize", 10, good.tokenize, SHED),
        Kind("cancelled", 8, bad.cancelled, {"CANCELLED", *SHED}),
        Kind("late", 8, bad.late, {"DEADLINE_EXCEEDED", *SHED}),
        Kind("malformed", 16, bad.malformed, refused),
        Kind("megabytes", 0.5, bad.megabytes, {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}),
        Kind("too large", 2, bad.too_large, {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}),
        Kind("flooding", 0.4, bad.flooding, SHED),
        Kind("slow", 0.5, bad.slow, SHED),
        Kind("stalled", 0.5, bad.stalled, {"RESOURCE_EXHAUSTED"}),
        Kind("reset", 0.5, bad.reset, {"UNAVAILABLE", "RESOURCE_EXHAUSTED"}),
        Kind("killed", 0.15, bad.killed, {"KILLED"}),
    ]


class Mix:
    """Concurrent callers, each with one call at a time, until told to pause.

    An async context manager.

    Every kind is called once at the start of each stretch, however rare it is.
    """

    def __init__(
        self, target: str, known: Reference, ledger: Ledger, callers: int, seed: int
    ) -> None:
        self._target = target
        self._known = known
        self._ledger = ledger
        self._callers = callers
        self._chance = random.Random(seed)
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Mix:
        client = await self._open.enter_async_context(AsyncClient(self._target, timeout=60.0))
        # A unique option: a channel with equal options would share the client's
        # connection.
        options = [("headlight.soak", "bare")]
        channel = await self._open.enter_async_context(
            grpc.aio.insecure_channel(self._target, options=options)
        )
        good = Callers(client, channel, self._known, self._chance)
        self._kinds = kinds(good, Faults(good, channel, self._target, STALL_SECONDS))
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self._open.aclose()

    async def run(self, seconds: float) -> None:
        """Call for a time, then wait for every call to end."""
        end = asyncio.get_running_loop().time() + seconds
        first = iter(self._kinds)
        async with asyncio.TaskGroup() as callers:
            for _ in range(self._callers):
                callers.create_task(self._call(first, end))

    async def _call(self, first: Iterator[Kind], end: float) -> None:
        weights = [kind.weight for kind in self._kinds]
        while asyncio.get_running_loop().time() < end:
            kind = next(first, None) or self._chance.choices(self._kinds, weights)[0]
            await self._ledger.call(kind.name, kind.call(), kind.allowed)
