"""Background load.

Both shipped clients, each answer compared with the reference, each call timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, NamedTuple

import grpc

from headlight import AsyncClient, Client
from tests.chaos.traffic.callers import Callers
from tests.chaos.traffic.ledger import Ledger
from tests.chaos.traffic.reference import Reference

LATE_SECONDS = 1.0  # that a call may outlive its timeout: two busy cores
PAUSE_SECONDS = 0.01  # between two calls of one caller, so that clients leave CPU to the service


class Call(NamedTuple):
    """One finished call."""

    kind: str
    begun: float  # time.monotonic
    seconds: float
    outcome: str


class Traffic:
    """Callers side by side, each with one call after the other. An async context manager.

    Args:
        target: of the clients.
        known: the right answers.
        callers: of the asyncio client; one thread with the blocking client is added.
        timeout: of each call, in seconds.
        allowed: the statuses that calls may end in.
        access: TLS and tokens of the clients.

    Attributes:
        calls: those that ended.
    """

    def __init__(
        self,
        target: str,
        known: Reference,
        *,
        callers: int = 4,
        timeout: float = 20.0,
        allowed: Iterable[str] = ("OK",),
        **access: Any,
    ) -> None:
        self.calls: list[Call] = []
        self._target, self._known, self._timeout, self._access = target, known, timeout, access
        self._count, self._allowed = callers, {"OK", *allowed}
        self._ledger, self._ending = Ledger(), False
        self._tasks: list[asyncio.Task[None]] = []
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Traffic:
        client = await self._open.enter_async_context(
            AsyncClient(self._target, timeout=self._timeout, **self._access)
        )
        self._blocking = self._open.enter_context(
            Client(self._target, timeout=self._timeout, **self._access)
        )
        unused = await self._open.enter_async_context(grpc.aio.insecure_channel("127.0.0.1:1"))
        good = Callers(client, unused, self._known, random.Random(1))
        kinds = {"embed": good.embed, "attend": good.attend, "tokenize": good.tokenize}
        self._tasks = [
            asyncio.create_task(self._repeat(kinds, number)) for number in range(self._count)
        ]
        self._tasks.append(asyncio.create_task(self._repeat({"blocking": self._embed_blocking}, 0)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending = True
        async with asyncio.timeout(self._timeout + 30):
            await asyncio.gather(*self._tasks)
        await self._open.aclose()

    async def _repeat(
        self, kinds: dict[str, Callable[[], Coroutine[Any, Any, str]]], seed: int
    ) -> None:
        chance, names = random.Random(seed), list(kinds)
        while not self._ending:
            name = chance.choice(names)
            begun = time.monotonic()
            outcome = await self._ledger.call(name, kinds[name](), self._allowed)
            self.calls.append(Call(name, begun, time.monotonic() - begun, outcome))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _embed_blocking(self) -> str:
        known = random.choice(self._known.texts)
        [vector] = await asyncio.to_thread(self._blocking.encode, [known.text])
        known.check_pooled(vector)
        return "OK"

    async def run(self, seconds: float) -> list[Call]:
        """Run for a time; return the calls that ended meanwhile."""
        before = len(self.calls)
        await asyncio.sleep(seconds)
        return self.calls[before:]

    def outcomes(self) -> Counter[str]:
        """Return the number of calls by status."""
        return Counter(call.outcome for call in self.calls)

    def latest_seconds(self) -> float:
        """Return the longest time that a call exceeded its timeout; negative if none did."""
        return max((call.seconds for call in self.calls), default=0.0) - self._timeout

    def problems(self) -> list[str]:
        """Return wrong answers, unexpected statuses, and calls far beyond their timeout."""
        found = self._ledger.problems()
        if self.latest_seconds() > LATE_SECONDS:
            found.append(f"a call ended {self.latest_seconds():.1f} s after its timeout")
        return found


def percentile(seconds: Iterable[float], share: float) -> float:
    """Return the nearest-rank percentile of the values; infinity for none."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def milliseconds(calls: Iterable[Call]) -> str:
    """Return median and p99 of calls."""
    seconds = [call.seconds for call in calls]
    if not seconds:
        return "no calls"
    return (
        f"median {1e3 * statistics.median(seconds):.0f} ms, "
        f"p99 {1e3 * percentile(seconds, 0.99):.0f} ms"
    )


def said(outcomes: Counter[str]) -> str:
    """Return counts in words."""
    return (
        ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()) or "no calls"
    )
