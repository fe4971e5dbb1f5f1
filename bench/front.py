"""Server CPU of each call over a real socket, beside that of a bare gRPC server.

    python -m bench.front [--before CHECKOUT] [--profile]

`nox -s bench` runs it and writes bench/results/front.md, and front.json with all rounds. Three
servers run in processes of their own and take turns: one of grpc.aio that only answers the same
number of bytes; Headlight with an engine that costs nothing; Headlight. The load comes from this
process, so its own CPU is not counted.

With --before, Headlight runs from another checkout of this repository too, in the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from bench.frame.machine import machine, revision
from bench.frame.processes import ROOT, Service
from bench.frame.report import parser, publish
from bench.frame.rounds import turns
from bench.front_messages import CONCURRENT, FLOOR, WORKLOADS, Workload, request
from bench.front_report import Rounds, report
from headlight.pb import headlight_pb2 as pb

IMPORT_ROOTS = (".", "service", "export", "model")  # of a checkout
PACKAGES = ("grpcio", "protobuf", "tokenizers", "onnxruntime")
SERVICE = "headlight.v1.HeadlightService"
STREAMS = 4  # streams that share them: a stream may have 8 requests in flight
TEXTS_A_ROUND = {1: 800, 32: 3200, 256: 2048}
QUICK_SHARE = 0.05  # of the messages of a round


class Server(NamedTuple):
    """A server to start."""

    name: str  # name in the report
    kind: str  # see bench.front_server
    options: tuple[str, ...] = ()
    checkout: Path = ROOT  # whose code it runs
    module: str = "bench.front_server"


class Target(NamedTuple):
    """Server in a process of its own."""

    name: str
    process: Service


def start(server: Server, logs: Path) -> Target:
    """Start a server, and return it when it is ready."""
    command = [sys.executable, "-m", server.module, server.kind, *server.options]
    roots = os.pathsep.join(str(server.checkout / root) for root in IMPORT_ROOTS)
    environment, log = {"PYTHONPATH": roots}, logs / f"{server.name}.log"
    service = Service(command, log, folder=server.checkout, environment=environment)
    return Target(server.name, service)


@contextlib.contextmanager
def started(servers: Sequence[Server]) -> Iterator[list[Target]]:
    """Start servers; stop them at the end."""
    with tempfile.TemporaryDirectory() as logs, contextlib.ExitStack() as running:
        targets = []
        for server in servers:
            targets.append(start(server, Path(logs)))
            running.callback(targets[-1].process.close)
        yield targets


async def unary(channel: grpc.aio.Channel, target: Target, load: Workload, calls: int) -> None:
    """Make so many calls, some at a time."""
    method = f"/{FLOOR}/Unary{load.size}" if target.name == "floor" else f"/{SERVICE}/Encode"
    call = channel.unary_unary(method, None, None)
    message, concurrent = request(load.kind, load.size).SerializeToString(), CONCURRENT[load.size]

    async def caller() -> None:
        for _ in range(calls // concurrent):
            await call(message)

    await asyncio.gather(*(caller() for _ in range(concurrent)))


async def streamed(channel: grpc.aio.Channel, target: Target, load: Workload, calls: int) -> None:
    """Send so many messages over STREAMS streams, some in flight together."""
    method = f"/{FLOOR}/Stream{load.size}" if target.name == "floor" else f"/{SERVICE}/EncodeStream"
    encode = request(load.kind, load.size)
    messages = [
        pb.EncodeStreamRequest(id=str(place), encode=encode).SerializeToString()
        for place in range(calls // STREAMS)
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
    """Return the server's CPU for each message of one burst; `share` of the usual number."""
    concurrent = CONCURRENT[load.size]
    calls = max(
        concurrent, int(share * TEXTS_A_ROUND[load.size] / load.size) // concurrent * concurrent
    )
    async with grpc.aio.insecure_channel(target.process.address()) as channel:
        await channel.channel_ready()
        begin = target.process.cpu_seconds
        await (streamed if load.streamed else unary)(channel, target, load, calls)
        return 1e6 * (target.process.cpu_seconds - begin) / calls


async def measured(targets: list[Target], rounds: int, share: float = 1.0) -> Rounds:
    """Measure in rounds, after one uncounted round of warm-up.

    All targets run a workload one after the other, so that a change of the machine's speed affects
    all.

    Args:
        targets: in an order drawn anew for each workload of a round.
        rounds: counted ones.
        share: of the usual number of messages.
    """
    found: Rounds = {target.name: {load.name: [] for load in WORKLOADS} for target in targets}
    for target in targets:
        for load in WORKLOADS:
            await microseconds(target, load, 0.3 * share)
    for _, load in turns(WORKLOADS, rounds, warm_up=0):
        for target in random.sample(targets, len(targets)):
            found[target.name][load.name].append(await microseconds(target, load, share))
    return found


def profile(options: argparse.Namespace) -> None:
    """Print a profile of the front, by workload. Profiling makes it some three times slower."""
    server = Server("front", "front", ("--bundle", str(options.bundle), "--profile"))
    for load in WORKLOADS:
        print(f"== {load.name}", flush=True)
        with started([server]) as [target]:
            asyncio.run(microseconds(target, load, 4))


def parse() -> argparse.Namespace:
    """Read the options."""
    made = parser("bench.front", __doc__, "front.md", rounds=9)
    made.add_argument("--quick", action="store_true", help="few messages: no measurement")
    made.add_argument(
        "--profile", action="store_true", help="print where the time goes, and measure nothing"
    )
    return parsed(made, Path("build/bundles/docs-rope"))


def parsed(made: argparse.ArgumentParser, bundle: Path) -> argparse.Namespace:
    """Return the options, --bundle and --before absolute: each server runs in its own folder."""
    made.add_argument("--bundle", type=Path, default=bundle)
    made.add_argument("--before", type=Path, help="another checkout, measured in the same rounds")
    options = made.parse_args()
    options.bundle = options.bundle.absolute()
    if options.before is not None:
        options.before = options.before.absolute()
        # Without this package the server would import that of this checkout.
        if not (options.before / "service/headlight_service").is_dir():
            made.error("--before must be a checkout with service/headlight_service")
    return options


def main() -> None:
    options = parse()
    if options.profile:
        return profile(options)
    random.seed(0)
    bundle = ("--bundle", str(options.bundle))
    servers = [
        Server("floor", "floor"),
        Server("front", "front", bundle),
        Server("real", "real", bundle),
    ]
    revisions = {"after": revision(ROOT)}
    if options.before is not None:
        revisions["before"] = revision(options.before)
        servers += [
            Server("front before", "front", bundle, options.before),
            Server("real before", "real", bundle, options.before),
        ]
    with started(servers) as targets:
        share = QUICK_SHARE if options.quick else 1.0
        found = asyncio.run(measured(targets, options.rounds, share))
    run = {"machine": machine(PACKAGES), "revisions": revisions, "microseconds": found}
    publish(options.out, report(run), run)


if __name__ == "__main__":
    main()
