"""Callers who do not wait for each other: requests at a rate that is not the server's to choose."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import numpy as np

from bench.serving.workloads import percentile

SERVICE = "/headlight.v1.HeadlightService"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One request.

    Attributes:
        code: "OK", or the name of what it ended with.
        seconds: since it was due, also where it was sent later: who waits does so from then on.
        ended: seconds since the first was due.
    """

    code: str
    seconds: float
    ended: float


def unary(channel: Any) -> Any:
    """Encode, bytes to bytes: what is sent often is serialised once."""
    return channel.unary_unary(f"{SERVICE}/Encode")


async def send_all(
    target: str, bodies: Sequence[bytes], due: Sequence[float], deadline: float
) -> tuple[list[Outcome], float]:
    """Send each body when it is due.

    Returns:
        what became of each; and how late the latest was sent: a generator that falls behind measures itself.
    """
    outcomes: list[Outcome] = []
    latest = 0.0
    async with grpc.aio.insecure_channel(target) as channel, asyncio.TaskGroup() as tasks:
        encode = unary(channel)
        await channel.channel_ready()
        origin = time.perf_counter()

        async def send(body: bytes, begin: float) -> None:
            try:
                await encode(body, timeout=deadline)
                code = "OK"
            except grpc.aio.AioRpcError as error:
                code = error.code().name
            now = time.perf_counter()
            outcomes.append(Outcome(code, now - begin, now - origin))

        for at, moment in enumerate(due):
            if (wait := origin + moment - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            else:
                latest = max(latest, -wait)
                await asyncio.sleep(0)  # answers have come meanwhile
            tasks.create_task(send(bodies[at % len(bodies)], origin + moment))
    return outcomes, latest


@contextlib.contextmanager
def unpaused() -> Iterator[None]:
    """Without garbage collection: to go through thousands of calls takes tens of milliseconds, which would count as the server's."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Moments at which requests are due, the first at once: however slow the machine and short the time, there is one."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate, size=int(rate * seconds * 1.5) + 20)
    return [0.0, *(float(moment) for moment in np.cumsum(gaps) if moment < seconds)]


def open_loop(
    target: str, bodies: Sequence[bytes], group: int, rate: float, seconds: float, deadline: float
) -> dict[str, Any]:
    """Requests at a rate, for a time; what counts is what was answered within its deadline.

    Goodput is counted from when the first deadline has passed, so that a queue that fills up does not count as speed.
    """
    due = poisson(rate, seconds, seed=int(rate * 1000))
    cpu = time.process_time()
    with unpaused():
        outcomes, latest = asyncio.run(send_all(target, bodies, due, deadline))
    cpu = time.process_time() - cpu
    begin = min(deadline, seconds / 2)
    counted = [one for one in outcomes if one.code == "OK" and begin <= one.ended < seconds]
    answered = [one.seconds for one in outcomes if one.code == "OK"]
    refused = [one.seconds for one in outcomes if one.code == "RESOURCE_EXHAUSTED"]
    return {
        "offered_texts_per_s": len(due) * group / seconds,
        "goodput_texts_per_s": len(counted) * group / (seconds - begin),
        "codes": dict(Counter(one.code for one in outcomes)),
        "p50_ms": percentile(answered, 50),
        "p99_ms": percentile(answered, 99),
        "refused_p50_ms": percentile(refused, 50),
        "refused_p99_ms": percentile(refused, 99),
        "sent_late_ms": 1000 * latest,
        "load_cpu_ms": 1000 * cpu / (len(due) * group),
    }
