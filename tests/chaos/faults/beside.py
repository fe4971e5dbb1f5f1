"""Normal clients beside clients that exceed limits: of quota, bulk, metrics, memory."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.chaos.flat import MIB
from tests.chaos.record import Outcome
from tests.chaos.traffic.background import said
from tests.chaos.traffic.load import (
    LARGE_TOKENS,
    Load,
    counts,
    p99_ms,
    paced,
    statuses_but,
    wrong_answers,
)
from tests.system.conftest import bundle_of
from tests.system.processes import Service


async def neighbour() -> Outcome:
    """Run a client with 40 times its quota beside one that keeps to it."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text("quiet quiet-token-of-16\nnoisy noisy-token-of-16\n", encoding="ascii")
        with Service(bundle_of("docs-rope")) as service:
            async with Load(service.target, tokens=LARGE_TOKENS) as load:
                capacity = counts(await load.closed(4, 3, 10))["OK"] / 3
        quota = int(0.4 * capacity * LARGE_TOKENS)  # two clients can use their quotas at once
        options = (
            "--auth-tokens",
            str(tokens),
            "--quota-tokens-per-second",
            str(quota),
            "--quota-burst-seconds",
            "2",
        )
        with Service(bundle_of("docs-rope"), *options) as service:
            async with loads(service.target, load.vectors) as (quiet, noisy):
                alone = await paced(quiet, 0.25 * capacity, 8)
                await asyncio.sleep(3)
                flood = asyncio.create_task(noisy.open(40 * capacity * 0.4, 8, 2.0))
                beside = await paced(quiet, 0.25 * capacity, 8)
                noise = await flood
            waste = service.counted('headlight_rejected_total{model="docs-rope",reason="quota"}')
    median = [1e3 * statistics.median(call.seconds for call in calls) for calls in (alone, beside)]
    problems = (
        [f"the quiet one: {said(counts(beside))}"] if counts(beside) != {"OK": len(beside)} else []
    )
    wrong, more = wrong_answers(alone, beside, noise)
    problems += more
    problems += ["the noisy one was never refused: this shows nothing"] if not waste else []
    return Outcome(
        (
            f"noisy client: {len(noise):,} calls, 40 times its quota, of which "
            f"{said(counts(noise))}. Quiet client: {said(counts(beside))}; median "
            f"{median[0]:.0f} ms alone, {median[1]:.0f} ms beside the noisy one; p99 "
            f"{p99_ms(alone):.0f} ms alone, {p99_ms(beside):.0f} ms beside it. {wrong}"
        ),
        {"noise": counts(noise), "quiet": counts(beside), "median_ms": median},
        problems,
    )


@contextlib.asynccontextmanager
async def loads(target: str, vectors: Any) -> AsyncIterator[tuple[Load, Load]]:
    """Return the loads of the quiet client and of the noisy one."""
    both = [(("authorization", f"Bearer {name}-token-of-16"),) for name in ("quiet", "noisy")]
    async with (
        Load(target, both[0], [("headlight.fault", 1)], LARGE_TOKENS, vectors) as quiet,
        Load(target, both[1], [("headlight.fault", 2)], LARGE_TOKENS, vectors) as noisy,
    ):
        yield quiet, noisy


async def flood_of_bulk() -> Outcome:
    """Send interactive calls beside a flood of bulk."""
    with Service(bundle_of("docs-rope")) as service:
        async with (
            Load(service.target) as load,
            Load(service.target, options=[("headlight.fault", 3)]) as bulk,
        ):
            alone = await paced(load, 5, 8)
            flood = asyncio.create_task(bulk.closed(32, 10, 60, pb.PRIORITY_BULK))
            await asyncio.sleep(1)
            beside = await paced(load, 5, 8)
            flooded = await flood
    medians = [1e3 * statistics.median(call.seconds for call in calls) for calls in (alone, beside)]
    problems = (
        [f"interactive calls: {said(counts(beside))}"]
        if counts(beside) != {"OK": len(beside)}
        else []
    )
    wrong, more = wrong_answers(alone, beside, flooded)
    problems += more
    problems += (
        [f"{medians[1]:.0f} ms, not {medians[0]:.0f}"] if medians[1] > 4 * medians[0] + 50 else []
    )
    return Outcome(
        (
            f"interactive: median {medians[0]:.0f} ms alone, {medians[1]:.0f} ms beside 32 "
            f"callers of bulk; p99 {p99_ms(alone):.0f} ms alone, {p99_ms(beside):.0f} ms beside "
            f"them; "
            f"bulk meanwhile: {said(counts(flooded))}; {wrong}"
        ),
        {"median_ms": medians, "p99_ms": [p99_ms(alone), p99_ms(beside)], "bulk": counts(flooded)},
        problems,
    )


async def scraped() -> Outcome:
    """Run scrapes at 10 Hz, a scraper that reads nothing, and calls with hostile names."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target) as load:
            await hostile(service.target, 20)
            series = await asyncio.to_thread(count_series, service)
            alone = await load.closed(2, 6, 10)
            host, _, port = service.http.rpartition(":")
            _, silent = await asyncio.open_connection(host, int(port))
            silent.write(b"GET /metrics HTTP/1.1\r\n")  # and no more
            scraping = asyncio.create_task(scrape(service, 6))
            more = asyncio.create_task(hostile(service.target, 2000))
            beside = await load.closed(2, 6, 10)
            scrapes = await scraping
            await more
            silent.close()
            grown = await asyncio.to_thread(count_series, service) - series
    medians = [1e3 * statistics.median(call.seconds for call in calls) for calls in (alone, beside)]
    problems = [f"{grown} series more"] if grown else []
    problems += [f"calls: {said(counts(beside))}"] if counts(beside) != {"OK": len(beside)} else []
    wrong, found = wrong_answers(alone, beside)
    problems += found
    problems += [f"{scrapes} scrapes in 6 s"] if scrapes < 30 else []
    return Outcome(
        (
            f"{scrapes} scrapes and 2,000 hostile calls in 6 s, beside the stalled scraper: "
            f"{series} series, {grown:+} afterwards; median of calls {medians[0]:.0f} ms "
            f"before, {medians[1]:.0f} ms meanwhile; {wrong}"
        ),
        {"scrapes": scrapes, "series": series, "grown": grown, "median_ms": medians},
        problems,
    )


def count_series(service: Service) -> int:
    with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=30) as answer:
        return sum(not line.startswith(b"#") for line in answer)


async def scrape(service: Service, seconds: float) -> int:
    begun, done = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        await asyncio.to_thread(count_series, service)
        done += 1
        await asyncio.sleep(max(0.0, 0.1 * done - (time.monotonic() - begun)))
    return done


async def hostile(target: str, calls: int) -> None:
    """Call unknown methods and models, each with a name of its own."""
    async with grpc.aio.insecure_channel(target, options=[("headlight.fault", 4)]) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        raw: Any = channel
        for number in range(calls // 2):
            name = f'a"}}{number}\\n'
            with contextlib.suppress(grpc.aio.AioRpcError):
                await raw.unary_unary(f"/headlight.v1.HeadlightService/Encode{number}")(
                    b"", timeout=10
                )
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.Tokenize(
                    pb.TokenizeRequest(model=name, inputs=[pb.Input(text="a")]), timeout=10
                )


async def bomb() -> Outcome:
    """Send 1 GiB of zeros as some MiB of gzip, and a small message of many empty inputs."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target) as load:
            memory = service.resident_bytes()
            service.forget_peak()
            statuses = Counter[str]()
            options = [("grpc.max_send_message_length", -1)]
            async with grpc.aio.insecure_channel(
                service.target, options=options, compression=grpc.Compression.Gzip
            ) as channel:
                raw: Any = channel
                for message in (
                    bytes(1 << 30),
                    b"\x12\x02\x0a\x00" * 1_000_000,
                    b"\x12\x00" * 2_000_000,
                ):
                    try:
                        await raw.unary_unary("/headlight.v1.HeadlightService/Encode")(
                            message, timeout=90
                        )
                        statuses["OK"] += 1
                    except grpc.aio.AioRpcError as error:
                        statuses[error.code().name] += 1
            grown = service.peak_bytes() - memory
            after = await load.closed(2, 2, 10)
    problems = (
        []
        if {*statuses} <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        else [f"ended as {said(statuses)}"]
    )
    problems += [f"memory rose by {grown / MIB:.0f} MiB"] if grown > 128 * MIB else []
    wrong, more = wrong_answers(after)
    problems += more + statuses_but({"OK"}, after) + ([] if after else ["no answer afterwards"])
    return Outcome(
        f"{said(statuses)}; memory +{grown / MIB:.0f} MiB at most; afterwards {wrong}",
        {"statuses": statuses, "grown_mib": grown / MIB},
        problems,
    )
