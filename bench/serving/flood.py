"""Latency of a single caller while others send as much bulk as they can."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from bench.frame.processes import Failed
from bench.serving.open_loop import poisson, send_all, unary, unpaused
from bench.serving.workloads import percentile

if TYPE_CHECKING:
    from bench.serving.contestants import Setting
    from bench.serving.served import Headlight

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
