"""Open loops: requests at a fixed rate; and single texts beside as much bulk as others can send."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from bench.frame.processes import Failed
from bench.serving.workloads import percentile

if TYPE_CHECKING:
    from bench.serving.contestants import Setting
    from bench.serving.served import Headlight

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


BATCH_MS = (10, 25, 50)  # time limit of a bulk batch
CALLERS, GROUP = 8, 32  # of bulk, each with a request of so many texts in flight
RATE = 10.0  # single texts/s of the waiting caller: a small part of the capacity
BUSY_SECONDS = 0.05


async def bulk(target: str, bodies: Iterator[bytes], callers: int, end: float) -> int:
    """Send requests one after another until the time is up; return the number of answers."""
    answered = 0
    async with grpc.aio.insecure_channel(target) as channel:
        encode = unary(channel)

        async def caller() -> None:
            nonlocal answered
            while time.perf_counter() < end:
                try:
                    await encode(next(bodies))
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(BUSY_SECONDS)
                else:
                    answered += time.perf_counter() < end

        await asyncio.gather(*(caller() for _ in range(callers)))
    return answered


def flooded(
    target: str,
    singles: Sequence[bytes],
    many: Sequence[bytes],
    group: int,
    callers: int,
    seconds: float,
) -> dict[str, Any]:
    """Send single texts now and then, beside so many callers of bulk."""

    async def both() -> tuple[Any, int]:
        end = time.perf_counter() + seconds
        waiting = send_all(target, singles, poisson(RATE, seconds, seed=3), deadline=10 * seconds)
        sent, answered = await asyncio.gather(
            waiting, bulk(target, itertools.cycle(many), callers, end)
        )
        return sent[0], answered

    with unpaused():
        outcomes, answered = asyncio.run(both())
    latencies = [one.seconds for one in outcomes if one.code == "OK"]
    return {
        "bulk_texts_per_s": answered * group / seconds,
        "p50_ms": percentile(latencies, 50),
        "p99_ms": percentile(latencies, 99),
        "failed": len(outcomes) - len(latencies),
    }


def floods(
    setting: Setting, served: Sequence[Headlight], seconds: float, lengths: Sequence[int] = BATCH_MS
) -> list[dict[str, Any]]:
    """Run each Headlight with bulk batches of each length: singles alone, and under the flood."""
    rows = []
    for one, batch_ms in itertools.product(served, lengths):
        again = one.with_flags(f"under a flood, {batch_ms} ms", "--bulk-batch-ms", str(batch_ms))
        try:
            again.start()
            alone, beside = (
                setting.load.ask(
                    "flood", target=again.target, group=GROUP, callers=callers, seconds=seconds
                )
                for callers in (0, CALLERS)
            )
        except (Failed, OSError) as error:
            print(f"without a flood on {one.name}: {error}", flush=True)
            continue
        finally:
            again.close()
        rows.append({"name": one.name, "batch_ms": batch_ms, "alone": alone, "beside": beside})
        print(f"flood, {one.name}, {batch_ms} ms: {alone} {beside}", flush=True)
    return rows
