"""Calls without retries, many at once, each answer compared with the reference."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any, NamedTuple

import grpc
import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.chaos.traffic.background import percentile

# Tokens of a request: some tens of milliseconds, so that this process needs little CPU.
TOKENS = 384
# The capacity is a few of these per second, so that overload costs the callers little.
LARGE_TOKENS = 800
KINDS = 8  # different requests with known vectors
DEADLINE = 1.0


class Ended(NamedTuple):
    """One call."""

    status: str
    seconds: float
    late: float  # time beyond its deadline
    wrong: bool = False


class Load:
    """Calls without retries by a bare stub, each answer compared. An async context manager."""

    def __init__(
        self,
        target: str,
        metadata: Any = None,
        options: Any = (),
        tokens: int = TOKENS,
        vectors: Any = None,
    ) -> None:
        self._target, self._metadata, self._options = target, metadata, list(options)
        self._tokens, self.vectors = tokens, vectors

    async def __aenter__(self) -> Load:
        self._channel = grpc.aio.insecure_channel(self._target, options=self._options)
        self._stub: Any = pb_grpc.HeadlightServiceStub(self._channel)
        ids = [[5 + (at * 7 + kind) % 900 for at in range(self._tokens)] for kind in range(KINDS)]
        self._requests = [
            pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=each))]) for each in ids
        ]
        if self.vectors is None:
            self.vectors = [await self._vector(request) for request in self._requests]
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self._channel.close(None)

    async def _vector(self, request: pb.EncodeRequest) -> Any:
        answer = await self._stub.Encode(request, timeout=60, metadata=self._metadata)
        return np.frombuffer(answer.pooled[0].data, "<f4")

    async def call(self, timeout: float, priority: pb.Priority | None = None) -> Ended:
        """Make one call of any kind."""
        kind, begun = random.randrange(KINDS), time.monotonic()
        request = self._requests[kind]
        if priority is not None:
            request = pb.EncodeRequest(inputs=request.inputs, priority=priority)
        try:
            answer = await self._stub.Encode(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            seconds = time.monotonic() - begun
            return Ended(error.code().name, seconds, seconds - timeout)
        seconds = time.monotonic() - begun
        wrong = not np.allclose(
            np.frombuffer(answer.pooled[0].data, "<f4"), self.vectors[kind], atol=1e-5
        )
        return Ended("OK", seconds, seconds - timeout, wrong)

    async def closed(
        self,
        callers: int,
        seconds: float,
        timeout: float = DEADLINE,
        priority: pb.Priority | None = None,
    ) -> list[Ended]:
        """Run a closed loop: some callers, each with one call after the other."""
        end, found = time.monotonic() + seconds, list[Ended]()

        async def one() -> None:
            while time.monotonic() < end:
                found.append(await self.call(timeout, priority))

        await asyncio.gather(*(one() for _ in range(callers)))
        return found

    async def open(self, rate: float, seconds: float, deadline: float = DEADLINE) -> list[Ended]:
        """Run an open loop: some calls a second, whatever their results."""
        begun, tasks = time.monotonic(), list[asyncio.Task[Ended]]()
        while (now := time.monotonic() - begun) < seconds:
            while len(tasks) < rate * now:
                tasks.append(asyncio.create_task(self.call(deadline)))
            await asyncio.sleep(0.005)
        return await asyncio.gather(*tasks)


def counts(calls: list[Ended]) -> Counter[str]:
    return Counter(call.status for call in calls)


def p99_ms(calls: list[Ended], status: str = "OK") -> float:
    return round(
        1e3 * percentile([call.seconds for call in calls if call.status == status], 0.99), 1
    )


async def paced(load: Load, rate: float, seconds: float) -> list[Ended]:
    """Make calls at an even rate, each after the previous one has ended."""
    found, begun = list[Ended](), time.monotonic()
    while time.monotonic() - begun < seconds:
        found.append(await load.call(10))
        await asyncio.sleep(max(0.0, len(found) / rate - (time.monotonic() - begun)))
    return found


def wrong_answers(*runs: list[Ended]) -> tuple[str, list[str]]:
    """Return the number of wrong answers as text, and as a problem if there is any."""
    calls = [call for run in runs for call in run]
    said = f"{sum(call.wrong for call in calls)} of {counts(calls)['OK']:,} answers wrong"
    return said, [said] if any(call.wrong for call in calls) else []


def statuses_but(allowed: set[str], *runs: list[Ended]) -> list[str]:
    """Return the problem that calls ended in other statuses, if any did."""
    others = {call.status for run in runs for call in run} - allowed
    return [f"calls ended as {', '.join(sorted(others))}"] if others else []
