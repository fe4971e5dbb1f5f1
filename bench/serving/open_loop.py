"""Open loop: requests at a fixed rate, from callers that do not wait for each other."""

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
        code: "OK", or the name of its error.
        seconds: from the time it was due, even if it was sent later: a caller waits from then on.
        ended: seconds since the first was due.
    """

    code: str
    seconds: float
    ended: float


def unary(channel: Any) -> Any:
    """Return Encode from bytes to bytes, so that repeated requests are serialised once."""
    return channel.unary_unary(f"{SERVICE}/Encode")


async def send_all(
    target: str, bodies: Sequence[bytes], due: Sequence[float], deadline: float
) -> tuple[list[Outcome], float]:
    """Send each body when it is due.

    Returns:
        the outcome of each; and the largest delay of sending: a generator that falls behind
        measures itself.
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
                await asyncio.sleep(0)  # answers have arrived meanwhile
            tasks.create_task(send(bodies[at % len(bodies)], origin + moment))
    return outcomes, latest


@contextlib.contextmanager
def unpaused() -> Iterator[None]:
    """Disable garbage collection in the block.

    With thousands of calls it takes tens of milliseconds, which would count as the server's.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Return the due times of requests, the first at once, so that even a short run has one."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate, size=int(rate * seconds * 1.5) + 20)
    return [0.0, *(float(moment) for moment in np.cumsum(gaps) if moment < seconds)]


def open_loop(
    target: str, bodies: Sequence[bytes], group: int, rate: float, seconds: float, deadline: float
) -> dict[str, Any]:
    """Send requests at a rate, for a time; only answers within their deadline count.

    Goodput counts after the first deadline has passed, so that a filling queue does not count as
    speed.
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
