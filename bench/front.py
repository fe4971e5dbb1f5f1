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
import itertools
import os
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import grpc

from bench.frame.machine import machine, revision
from bench.frame.processes import ROOT, Service
from bench.frame.report import parser, publish, table
from bench.frame.rounds import ratios, turns
from headlight.pb import headlight_pb2 as pb

FLOOR = "bench.Floor"  # the bare server's service
WIDTH = 256  # of docs-rope's vectors
TOKENS = 12
SIZES = (1, 32, 256)  # texts of a message
CONCURRENT = {1: 32, 32: 32, 256: 8}  # messages in flight, by their texts
REPLY_BYTES = {size: size * (4 * WIDTH + 6) + 150 for size in SIZES}  # data, and the entry of each
WORDS = (
    "join",
    "two",
    "paths",
    "read",
    "file",
    "and",
    "decode",
    "json",
    "parse",
    "date",
    "from",
    "string",
    "return",
    "list",
)


class Workload(NamedTuple):
    """Messages of one kind, as unary calls or on open streams."""

    streamed: bool
    kind: str  # of input: "text" or "ids"
    size: int  # inputs of a message

    @property
    def name(self) -> str:
        return f"{'stream message' if self.streamed else 'unary call'}, {self.size} {self.kind}"


WORKLOADS = [
    Workload(streamed, kind, size)
    for streamed in (False, True)
    for kind in ("text", "ids")
    for size in SIZES
]


def inputs(kind: str, count: int) -> list[pb.Input]:
    """Return short texts of some 10 tokens, the same each time; or as many ids."""
    chosen = random.Random(0)
    if kind == "ids":
        return [
            pb.Input(ids=pb.TokenIds(ids=chosen.choices(range(5, 2000), k=TOKENS)))
            for _ in range(count)
        ]
    return [pb.Input(text=" ".join(chosen.choices(WORDS, k=TOKENS - 2))) for _ in range(count)]


def request(kind: str, count: int) -> pb.EncodeRequest:
    """Return a request for pooled vectors of so many inputs, as our client makes it."""
    return pb.EncodeRequest(
        inputs=inputs(kind, count), outputs=pb.Outputs(pooled=pb.PooledOutput())
    )


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


class Target(NamedTuple):
    """Server in a process of its own."""

    name: str
    process: Service


def start(server: Server, logs: Path) -> Target:
    """Start a server, and return it when it is ready."""
    command = [sys.executable, "-m", "bench.front_server", server.kind, *server.options]
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
        pb.EncodeStreamRequest(id=str(number), encode=encode).SerializeToString()
        for number in range(calls // STREAMS)
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
    rounds_: Rounds = {target.name: {load.name: [] for load in WORKLOADS} for target in targets}
    for target in targets:
        for load in WORKLOADS:
            await microseconds(target, load, 0.3 * share)
    for _, load in turns(WORKLOADS, rounds, warm_up=0):
        for target in random.sample(targets, len(targets)):
            rounds_[target.name][load.name].append(await microseconds(target, load, share))
    return rounds_


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


# By server and workload, the server's CPU for a message in each round, in microseconds.
Rounds = dict[str, dict[str, list[float]]]
UNARY_TEXT = WORKLOADS[0]


def report(run: dict[str, Any]) -> list[str]:
    """Return the lines of the page.

    Args:
        run: `machine`, a clause; `revisions`, of this checkout as "after" and perhaps of another
            as "before"; `microseconds`, which are Rounds.
    """
    by_server: Rounds = run["microseconds"]
    compares = "before" in run["revisions"]
    command = "python -m bench.front --before CHECKOUT" if compares else "nox -s bench"
    rounds = len(by_server["floor"][UNARY_TEXT.name])
    lines = [
        "# What the front costs",
        "",
        f"`{command}` on {run['machine']}. CPU of the server's process for each message, "
        f"{CONCURRENT[1]} in flight (of 256 texts {CONCURRENT[256]}), texts of some 10 tokens; "
        f"medians of {rounds} interleaved rounds. "
        "Bare gRPC: grpc.aio that takes and gives bytes of the same number. "
        "The front: Headlight with an engine that answers at once.",
        "",
        *front_table(by_server),
    ]
    if compares:
        lines += ["", *comparison(by_server, run["revisions"])]
    return lines


def front_table(by_server: Rounds) -> list[str]:
    """Return a table of this checkout beside bare gRPC."""
    rows = []
    for load in WORKLOADS:
        floor, front, real = (
            median(by_server[name][load.name]) for name in ("floor", "front", "real")
        )
        cells = [f"{value:.0f}" for value in (floor, front, front - floor, real)]
        rows.append((load.name, *cells, f"{1e6 * load.size / front:,.0f}"))
    heading = ("server CPU, µs", "bare gRPC", "the front", "above the bare one", "with the model")
    return table((*heading, "the front in texts/s of a core"), rows)


def comparison(by_server: Rounds, revisions: dict[str, str]) -> list[str]:
    """Return a table of this checkout beside another one."""
    unary = compared(
        above(by_server, "front before", UNARY_TEXT), above(by_server, "front", UNARY_TEXT)
    )
    rows = []
    for load in WORKLOADS:
        columns = [
            compared(by_server["front before"][load.name], by_server["front"][load.name]),
            compared(above(by_server, "front before", load), above(by_server, "front", load)),
            compared(by_server["real before"][load.name], by_server["real"][load.name]),
        ]
        cells = [
            (f"{before:.0f}", f"{after:.0f}", f"{ratio:.2f}") for before, after, ratio in columns
        ]
        rows.append((load.name, *itertools.chain(*cells)))
    heading = ["server CPU, µs"]
    for measured in ("the front", "above the bare one", "with the model"):
        heading += [f"{measured}: before", "after", "ratio"]
    return [
        "## Before and after",
        "",
        f"Before: commit {revisions['before']}. After: commit {revisions['after']}. "
        "Both ran in the same rounds. A ratio is after to before: the median of the rounds' own.",
        "",
        "The front's own CPU of a unary text, above bare gRPC: "
        f"{unary[0]:.0f} µs before, {unary[1]:.0f} µs after, ratio {unary[2]:.2f}.",
        "",
        *table(heading, rows),
    ]


def above(by_server: Rounds, name: str, load: Workload) -> list[float]:
    """Return a server's CPU above bare gRPC, by round."""
    floor = by_server["floor"][load.name]
    return [taken - least for taken, least in zip(by_server[name][load.name], floor, strict=True)]


def compared(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """Return the medians of two servers, and of the ratios of their rounds."""
    return median(before), median(after), median(ratios(after, before))


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
        by_server = asyncio.run(measured(targets, options.rounds, share))
    run = {"machine": machine(PACKAGES), "revisions": revisions, "microseconds": by_server}
    publish(options.out, report(run), run)


if __name__ == "__main__":
    main()
