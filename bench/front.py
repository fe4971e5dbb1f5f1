"""What the front costs: server CPU for each call over a real socket, beside that of a bare server of gRPC.

    python -m bench.front [--profile]

`make bench` runs it and writes bench/results/front.md. Three servers run in processes of their own and take turns: one of grpc.aio that
answers the same number of bytes and does nothing else; Headlight with an engine that costs nothing; Headlight. The load comes from this
process, so none of what it needs is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from bench.front_messages import FLOOR, SIZES, request
from bench.measuring import machine, publish
from headlight.pb import headlight_pb2 as pb

PACKAGES = ("grpcio", "protobuf", "tokenizers", "onnxruntime")
SERVICE = "headlight.v1.HeadlightService"
CONCURRENT = {1: 32, 32: 32, 256: 8}  # messages in flight, by their texts
STREAMS = 4  # that share them: a stream may have 8 requests in flight
TEXTS_A_ROUND = {1: 800, 32: 3200, 256: 2048}


class Workload(NamedTuple):
    """Messages of one sort, unary calls or on open streams."""

    streamed: bool
    kind: str  # of input: "text" or "ids"
    size: int  # inputs of a message

    @property
    def name(self) -> str:
        return f"{'stream message' if self.streamed else 'unary call'}, {self.size} {self.kind}"


WORKLOADS = [Workload(streamed, kind, size) for streamed in (False, True) for kind in ("text", "ids") for size in SIZES]


class Target(NamedTuple):
    """A server in a process of its own."""

    name: str
    process: subprocess.Popen[str]
    port: int

    @property
    def cpu_seconds(self) -> float:
        """That all its threads have used so far: the kernel has a clock for each process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)


def start(kind: str, *options: str, folder: Path | None = None) -> Target:
    """A server that is ready; `folder` is where its code is."""
    command = [sys.executable, "-m", "bench.front_server", kind, *options]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = 0
    for line in process.stderr:
        event = json.loads(line)
        port = event.get("grpc_port", port)
        if event["event"] == "serving":
            return Target(kind, process, port)
    raise SystemExit(f"the server {kind} did not start")


@contextlib.contextmanager
def servers(*commands: tuple[str, ...]) -> Iterator[list[Target]]:
    """One for each command: what it is, and its options."""
    targets: list[Target] = []
    try:
        targets += [start(*command) for command in commands]
        yield targets
    finally:
        for target in targets:
            target.process.terminate()
            target.process.wait(30)


async def unary(channel: grpc.aio.Channel, target: Target, load: Workload, calls: int) -> None:
    """So many calls, some at a time."""
    method = f"/{FLOOR}/Unary{load.size}" if target.name == "floor" else f"/{SERVICE}/Encode"
    call = channel.unary_unary(method, None, None)
    message, concurrent = request(load.kind, load.size).SerializeToString(), CONCURRENT[load.size]

    async def caller() -> None:
        for _ in range(calls // concurrent):
            await call(message)

    await asyncio.gather(*(caller() for _ in range(concurrent)))


async def streamed(channel: grpc.aio.Channel, target: Target, load: Workload, calls: int) -> None:
    """So many messages over STREAMS streams, some in flight together."""
    method = f"/{FLOOR}/Stream{load.size}" if target.name == "floor" else f"/{SERVICE}/EncodeStream"
    encode = request(load.kind, load.size)
    messages = [
        pb.EncodeStreamRequest(id=str(place), encode=encode).SerializeToString() for place in range(calls // STREAMS)
    ]

    async def caller() -> None:
        free = asyncio.Semaphore(CONCURRENT[load.size] // STREAMS)

        async def sent() -> AsyncIterator[bytes]:
            for message in messages:
                await free.acquire()
                yield message

        async for _ in channel.stream_stream(method, None, None)(sent()):
            free.release()

    await asyncio.gather(*(caller() for _ in range(STREAMS)))


async def microseconds(target: Target, load: Workload, share: float = 1.0) -> float:
    """Of the server's CPU for each message of one burst; `share` of the usual number."""
    concurrent = CONCURRENT[load.size]
    calls = max(concurrent, int(share * TEXTS_A_ROUND[load.size] / load.size) // concurrent * concurrent)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{target.port}") as channel:
        await channel.channel_ready()
        begin = target.cpu_seconds
        await (streamed if load.streamed else unary)(channel, target, load, calls)
        return 1e6 * (target.cpu_seconds - begin) / calls


async def measured(targets: list[Target], rounds: int) -> dict[tuple[str, Workload], float]:
    """The median microseconds of each target and workload; a round of warm-up is not counted."""
    found: dict[tuple[str, Workload], list[float]] = {}
    turns = [(target, load) for target in targets for load in WORKLOADS]
    for target, load in turns:
        await microseconds(target, load, 0.3)
    for _ in range(rounds):
        for target, load in random.sample(turns, len(turns)):
            found.setdefault((target.name, load), []).append(await microseconds(target, load))
    return {turn: statistics.median(values) for turn, values in found.items()}


def table(found: dict[Any, float]) -> list[str]:
    lines = [
        "| server CPU, µs | bare gRPC | the front | above the bare one | with the model | the front in texts/s of a core |",
        "|---|---|---|---|---|---|",
    ]
    for load in WORKLOADS:
        floor, front, real = (found[name, load] for name in ("floor", "front", "real"))
        cells = [*(f"{value:.0f}" for value in (floor, front, front - floor, real)), f"{1e6 * load.size / front:,.0f}"]
        lines.append(f"| {load.name} | {' | '.join(cells)} |")
    return lines


def profile(options: argparse.Namespace) -> None:
    """Print where the front's time goes, workload by workload. Being watched makes it some three times slower."""
    for load in WORKLOADS:
        print(f"== {load.name}", flush=True)
        with servers(("front", "--bundle", str(options.bundle), "--profile")) as [target]:
            asyncio.run(microseconds(target, load, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/docs-rope"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("bench/results/front.md"))
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and measure nothing")
    options = parser.parse_args()
    if options.profile:
        return profile(options)
    random.seed(0)
    bundle = ("--bundle", str(options.bundle))
    with servers(("floor",), ("front", *bundle), ("real", *bundle)) as targets:
        found = asyncio.run(measured(targets, options.rounds))
    report = [
        "# What the front costs",
        "",
        f"`make bench` on {machine(PACKAGES)}. CPU of the server's process for each message, "
        f"{CONCURRENT[1]} in flight (of 256 texts {CONCURRENT[256]}), texts of some 10 tokens; "
        f"medians of {options.rounds} interleaved rounds. "
        "Bare gRPC: grpc.aio that takes and gives bytes of the same number. The front: Headlight with an engine that answers at once.",
        "",
        *table(found),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
