"""More calls than there is capacity for, deadlines too short to keep, and a neighbour who asks too much."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.faults.record import Outcome
from tests.faults.traffic import percentile, said
from tests.soak.flat import MIB
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TOKENS = 384  # of a request: some tens of milliseconds, so that this process needs little of the CPU
KINDS = 8  # different requests, whose vectors are known
DEADLINE = 1.0
MULTIPLES = (0.8, 1.0, 2.0, 5.0, 10.0)
STEP_SECONDS = 10.0
# Few of them a second are all there is capacity for, and ten times as many cost their callers little.
LARGE_TOKENS, LARGE_DEADLINE = 800, 2.0
GOODPUT_SHARE, GOODPUT_SHARE_AT_TEN = 0.85, 0.75  # of the peak: callers and service share the cores here
LATE_SECONDS = 0.25  # that a status may come after its deadline: callers and service share the cores here


class Ended(NamedTuple):
    """One call."""

    status: str
    seconds: float
    late: float  # after its deadline
    wrong: bool = False


class Load:
    """Calls without retries by a bare stub, each answer compared. An async context manager."""

    def __init__(
        self, target: str, metadata: Any = None, options: Any = (), tokens: int = TOKENS, vectors: Any = None
    ) -> None:
        self._target, self._metadata, self._options = target, metadata, list(options)
        self._tokens, self.vectors = tokens, vectors

    async def __aenter__(self) -> Load:
        self._channel = grpc.aio.insecure_channel(self._target, options=self._options)
        self._stub: Any = pb_grpc.HeadlightServiceStub(self._channel)
        ids = [[5 + (at * 7 + kind) % 900 for at in range(self._tokens)] for kind in range(KINDS)]
        self._requests = [pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=each))]) for each in ids]
        if self.vectors is None:
            self.vectors = [await self._vector(request) for request in self._requests]
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self._channel.close(None)

    async def _vector(self, request: pb.EncodeRequest) -> Any:
        answer = await self._stub.Encode(request, timeout=60, metadata=self._metadata)
        return np.frombuffer(answer.pooled[0].data, "<f4")

    async def call(self, timeout: float, priority: pb.Priority | None = None) -> Ended:
        """One call of any kind."""
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
        wrong = not np.allclose(np.frombuffer(answer.pooled[0].data, "<f4"), self.vectors[kind], atol=1e-5)
        return Ended("OK", seconds, seconds - timeout, wrong)

    async def closed(
        self, callers: int, seconds: float, timeout: float = DEADLINE, priority: pb.Priority | None = None
    ) -> list[Ended]:
        """So many callers, each with one call after the other."""
        end, found = time.monotonic() + seconds, list[Ended]()

        async def one() -> None:
            while time.monotonic() < end:
                found.append(await self.call(timeout, priority))

        await asyncio.gather(*(one() for _ in range(callers)))
        return found

    async def open(self, rate: float, seconds: float, deadline: float = DEADLINE) -> list[Ended]:
        """So many calls a second, whatever becomes of them."""
        begun, tasks = time.monotonic(), list[asyncio.Task[Ended]]()
        while (now := time.monotonic() - begun) < seconds:
            while len(tasks) < rate * now:
                tasks.append(asyncio.create_task(self.call(deadline)))
            await asyncio.sleep(0.005)
        return await asyncio.gather(*tasks)


def counts(calls: list[Ended]) -> Counter[str]:
    return Counter(call.status for call in calls)


def p99_ms(calls: list[Ended], status: str = "OK") -> float:
    return round(1e3 * percentile([call.seconds for call in calls if call.status == status], 0.99), 1)


async def overload() -> Outcome:
    """Open-loop load of 0.8 to 10 times the capacity."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target, tokens=LARGE_TOKENS) as load:
            capacity = counts(await load.closed(8, STEP_SECONDS, 30))["OK"] / STEP_SECONDS
            memory = service.resident_bytes()
            steps = {factor: await load.open(factor * capacity, STEP_SECONDS, LARGE_DEADLINE) for factor in MULTIPLES}
            grown = service.resident_bytes() / memory - 1
            after = await load.closed(2, 3, 10)
    goodput = {factor: counts(calls)["OK"] / STEP_SECONDS for factor, calls in steps.items()}
    peak = max(goodput.values())
    everything = [call for calls in (*steps.values(), after) for call in calls]
    problems = [f"{sum(call.wrong for call in everything)} wrong"] if any(call.wrong for call in everything) else []
    odd = set(counts(everything)) - {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
    problems += [f"calls ended as {', '.join(sorted(odd))}"] if odd else []
    for factor in MULTIPLES[2:]:
        least = GOODPUT_SHARE_AT_TEN if factor == 10 else GOODPUT_SHARE
        if goodput[factor] < least * peak:
            problems.append(f"{goodput[factor] / peak:.0%} of peak goodput at {factor:g} times")
    refused = [p99_ms(calls, "RESOURCE_EXHAUSTED") for factor, calls in steps.items() if factor >= 2]
    if counts(after) != {"OK": len(after)} or grown > 0.25:
        problems.append(f"afterwards {said(counts(after))}, memory {grown:+.0%}")
    shares = ", ".join(f"{goodput[factor] / peak:.0%} at {factor:g}×" for factor in MULTIPLES)
    admitted = ", ".join(f"{p99_ms(steps[factor]):.0f} ms" for factor in MULTIPLES)
    return Outcome(
        f"capacity {capacity:.0f}/s; goodput of the peak: {shares}; p99 of answers: {admitted}; p99 of refusals from 2×: "
        f"{', '.join(f'{each:.0f} ms' for each in refused)}; memory {grown:+.0%}; afterwards {said(counts(after))}; 0 wrong",
        {"capacity": capacity, "goodput": goodput, "refusal_p99_ms": refused, "memory_share": grown},
        problems,
    )


async def deadlines() -> Outcome:
    """Deadlines of 1 to 50 ms beside others' load."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target) as load, Load(service.target, options=[("headlight.fault", 2)]) as short:
            others = asyncio.create_task(load.closed(4, 15, 30))
            found, begun = list[Ended](), time.monotonic()
            before = service.counted("headlight_tokens_total")
            while time.monotonic() - begun < 12:
                many = (short.call(random.uniform(0.001, 0.05)) for _ in range(4))
                found += await asyncio.gather(*many)
            beside = await others
            computed = (service.counted("headlight_tokens_total") - before) / TOKENS
    answered = counts(found)["OK"] + counts(beside)["OK"]
    wasted, late = computed - answered, sorted(call.late for call in found if call.status != "OK")
    tail = percentile(late, 0.99)
    problems = [f"{sum(call.wrong for call in (*found, *beside))} wrong"] if any(call.wrong for call in found) else []
    odd = set(counts(found)) - {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
    problems += [f"calls ended as {', '.join(sorted(odd))}"] if odd else []
    problems += [f"statuses came {tail:.2f} s after the deadline"] if tail > LATE_SECONDS else []
    problems += [f"{wasted:.0f} of {computed:.0f} computed for nobody"] if wasted > 0.1 * computed + 8 else []
    return Outcome(
        f"{said(counts(found))}; after the deadline by {1e3 * statistics.median(late):.0f} ms (median), {1e3 * tail:.0f} ms "
        f"(p99); {max(0.0, wasted):.0f} of {computed:.0f} texts computed in vain; 0 wrong",
        {"outcomes": counts(found), "late_p99_seconds": tail, "wasted": wasted, "computed": computed},
        problems,
    )


async def neighbour() -> Outcome:
    """A client with 100 times its quota beside one that keeps to it."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text("quiet quiet-token-of-16\nnoisy noisy-token-of-16\n", encoding="ascii")
        with Service(bundle_of("docs-rope")) as service:
            async with Load(service.target) as load:
                capacity = counts(await load.closed(4, 3, 10))["OK"] / 3
        quota = int(0.4 * capacity * TOKENS)  # so that two can have theirs at once
        options = ("--auth-tokens", str(tokens), "--quota-tokens-per-second", str(quota), "--quota-burst-seconds", "2")
        with Service(bundle_of("docs-rope"), *options) as service:
            async with loads(service.target, load.vectors) as (quiet, noisy):
                alone = await paced(quiet, 0.25 * capacity, 8)
                await asyncio.sleep(3)
                flood = asyncio.create_task(noisy.open(40 * capacity * 0.4, 8))
                beside = await paced(quiet, 0.25 * capacity, 8)
                noise = await flood
            waste = service.counted('headlight_rejected_total{model="docs-rope",reason="quota"}')
    median = [1e3 * statistics.median(call.seconds for call in calls) for calls in (alone, beside)]
    problems = [f"the quiet one: {said(counts(beside))}"] if counts(beside) != {"OK": len(beside)} else []
    problems += ["wrong answers"] if any(call.wrong for call in (*alone, *beside, *noise)) else []
    problems += ["the noisy one was never refused: this shows nothing"] if not waste else []
    return Outcome(
        f"the noisy one sent {len(noise):,} calls, 40 times its quota: {said(counts(noise))}; the quiet one: {said(counts(beside))}, "
        f"median {median[0]:.0f} ms alone, {median[1]:.0f} ms beside it, p99 {p99_ms(alone):.0f} and {p99_ms(beside):.0f} ms",
        {"noise": counts(noise), "quiet": counts(beside), "median_ms": median},
        problems,
    )


@contextlib.asynccontextmanager
async def loads(target: str, vectors: Any) -> AsyncIterator[tuple[Load, Load]]:
    """Of the quiet client and of the noisy one."""
    both = [(("authorization", f"Bearer {name}-token-of-16"),) for name in ("quiet", "noisy")]
    async with (
        Load(target, both[0], [("headlight.fault", 1)], vectors=vectors) as quiet,
        Load(target, both[1], [("headlight.fault", 2)], vectors=vectors) as noisy,
    ):
        yield quiet, noisy


async def paced(load: Load, rate: float, seconds: float) -> list[Ended]:
    """Calls at an even pace, none before the last one has ended."""
    found, begun = list[Ended](), time.monotonic()
    while time.monotonic() - begun < seconds:
        found.append(await load.call(10))
        await asyncio.sleep(max(0.0, len(found) / rate - (time.monotonic() - begun)))
    return found


async def flood_of_bulk() -> Outcome:
    """Interactive calls beside a flood of bulk."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target) as load, Load(service.target, options=[("headlight.fault", 3)]) as bulk:
            alone = await paced(load, 5, 8)
            flood = asyncio.create_task(bulk.closed(32, 10, 60, pb.PRIORITY_BULK))
            await asyncio.sleep(1)
            beside = await paced(load, 5, 8)
            flooded = await flood
    medians = [1e3 * statistics.median(call.seconds for call in calls) for calls in (alone, beside)]
    problems = [f"interactive calls: {said(counts(beside))}"] if counts(beside) != {"OK": len(beside)} else []
    problems += ["wrong answers"] if any(call.wrong for call in (*alone, *beside, *flooded)) else []
    problems += [f"{medians[1]:.0f} ms, not {medians[0]:.0f}"] if medians[1] > 4 * medians[0] + 50 else []
    return Outcome(
        f"interactive: median {medians[0]:.0f} ms alone, {medians[1]:.0f} ms beside 32 callers of bulk; p99 {p99_ms(alone):.0f} "
        f"and {p99_ms(beside):.0f} ms; bulk meanwhile: {said(counts(flooded))}; 0 wrong",
        {"median_ms": medians, "p99_ms": [p99_ms(alone), p99_ms(beside)], "bulk": counts(flooded)},
        problems,
    )


async def scraped() -> Outcome:
    """Scrapes at 10 Hz, a scraper that reads nothing, and hostile names of methods and models."""
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
    problems += ["wrong answers"] if any(call.wrong for call in beside) else []
    problems += [f"{scrapes} scrapes in 6 s"] if scrapes < 30 else []
    return Outcome(
        f"{scrapes} scrapes and 2,000 hostile calls in 6 s beside a scraper that says nothing: {series} series, {grown:+} by "
        f"then; median of calls {medians[0]:.0f} ms before, {medians[1]:.0f} ms meanwhile; 0 wrong",
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
    """Methods and models that are none, each with a name of its own."""
    async with grpc.aio.insecure_channel(target, options=[("headlight.fault", 4)]) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        raw: Any = channel
        for number in range(calls // 2):
            name = f'a"}}{number}\\n'
            with contextlib.suppress(grpc.aio.AioRpcError):
                await raw.unary_unary(f"/headlight.v1.HeadlightService/Encode{number}")(b"", timeout=10)
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.Tokenize(pb.TokenizeRequest(model=name, inputs=[pb.Input(text="a")]), timeout=10)


async def bomb() -> Outcome:
    """1 GiB of zeros in some MiB of gzip, and a small message of many empty inputs."""
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
                for message in (bytes(1 << 30), b"\x12\x02\x0a\x00" * 1_000_000, b"\x12\x00" * 2_000_000):
                    try:
                        await raw.unary_unary("/headlight.v1.HeadlightService/Encode")(message, timeout=90)
                        statuses["OK"] += 1
                    except grpc.aio.AioRpcError as error:
                        statuses[error.code().name] += 1
            grown = service.peak_bytes() - memory
            after = await load.closed(2, 2, 10)
    problems = [f"ended as {said(statuses)}"] if statuses["OK"] or statuses["UNKNOWN"] else []
    problems += [f"memory rose by {grown / MIB:.0f} MiB"] if grown > 128 * MIB else []
    problems += (
        ["wrong, or none, afterwards"] if counts(after) != {"OK": len(after)} or any(a.wrong for a in after) else []
    )
    return Outcome(
        f"{said(statuses)}; memory +{grown / MIB:.0f} MiB at most; {len(after)} right answers afterwards",
        {"statuses": statuses, "grown_mib": grown / MIB},
        problems,
    )
