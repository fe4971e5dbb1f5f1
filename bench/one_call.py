"""Profile of one unary call, socket to socket, in microseconds by step: one caller, one short text.

    python -m bench.one_call [--before CHECKOUT]

`nox -s bench` runs it and writes bench/results/one-call.md, and one-call.json with all rounds. Each
server is a process of its own, and they take turns: a bare echo of grpc.aio; a minimal server that
queues to one computing thread, asynchronous and threaded; Headlight over gRPC and over HTTP;
Headlight with time stamps; and the session alone.

With --before, Headlight runs from another checkout of this repository too, in the same rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import itertools
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from bench.frame.machine import Others, machine, revision
from bench.frame.processes import ROOT
from bench.frame.report import parser, publish
from bench.frame.rounds import turns
from bench.front import PACKAGES, SERVICE, Server, Target, parsed, started
from bench.front_messages import FLOOR, request
from bench.one_call_report import Round, report
from bench.one_call_server import METHOD
from bench.one_call_steps import names

PAUSE_SECONDS = 0.002  # before each run of the session; a lone caller leaves such pauses
SERVER = "bench.one_call_server"
Ask = Callable[[], object]


class Way(NamedTuple):
    """One way to be asked, to compare with the others."""

    name: str
    target: Target
    ask: Ask | None  # None: the session alone, which measures itself
    pause: float = 0.0


def servers(options: argparse.Namespace, stamps: Path) -> list[Server]:
    """Return the servers to start."""
    bundle = ("--bundle", str(options.bundle))
    own = [Server(kind, kind, bundle, module=SERVER) for kind in ("echo", "queue", "threads")]
    own += [
        Server("Headlight", "real", bundle),
        Server("stamped", "stamped", (*bundle, "--stamps", str(stamps)), module=SERVER),
        Server("session", "session", bundle, module=SERVER),
    ]
    if options.before is not None:
        own.append(Server("Headlight before", "real", bundle, options.before))
    return own


@contextlib.contextmanager
def opened(targets: list[Target]) -> Iterator[list[Way]]:
    """Connect one caller to each way; its connections stay open."""
    message = request("text", 1).SerializeToString()
    with contextlib.ExitStack() as stack:
        ways = []
        for target in targets:
            channel = stack.enter_context(grpc.insecure_channel(target.process.address()))
            grpc.channel_ready_future(channel).result(30)
            if target.name == "session":
                ways += [Way("session", target, None), Way("paused", target, None, PAUSE_SECONDS)]
                continue
            method = (
                f"/{SERVICE}/Encode" if target.process.ports.get("api") else f"/{FLOOR}/{METHOD}"
            )
            call = functools.partial(channel.unary_unary(method, None, None), message)
            ways.append(Way(target.name, target, call))
            if target.name == "Headlight":
                connection = http.client.HTTPConnection(target.process.address("api"))
                stack.callback(connection.close)
                ways.append(Way("HTTP", target, functools.partial(over_http, connection)))
        yield ways


def over_http(connection: http.client.HTTPConnection) -> None:
    """Send the same request as JSON, and read the answer."""
    [text] = request("text", 1).inputs
    asked = {"inputs": [{"text": text.text}], "outputs": {"pooled": {}}, "encoding": "base64"}
    connection.request("POST", "/v1/encode", json.dumps(asked))
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"HTTP {answer.status}: {body!r}")


def switches(pid: int) -> tuple[int, int]:
    """Return the voluntary and involuntary context switches of a process's living threads."""
    found = [0, 0]
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # the thread has ended
            for line in status.read_text(encoding="ascii", errors="replace").splitlines():
                name, _, value = line.partition(":")
                if name.endswith("ctxt_switches"):
                    found[name.startswith("non")] += int(value)
    return found[0], found[1]


def run(way: Way, count: int) -> tuple[Round, list[tuple[int, int]]]:
    """Make so many calls one after another; return the round, and when each began and ended."""
    cpu, before = way.target.process.cpu_seconds, switches(way.target.process.pid)
    times: list[tuple[int, int]] = []
    if way.ask is None:
        taken = alone(way, count)
    else:
        for _ in range(count):
            begin = time.monotonic_ns()
            way.ask()
            times.append((begin, time.monotonic_ns()))
        taken = [end - begin for begin, end in times]
    after = switches(way.target.process.pid)
    round_ = Round(
        latencies=[nanoseconds / 1000 for nanoseconds in taken],
        cpu=1e6 * (way.target.process.cpu_seconds - cpu) / count,
        voluntary=(after[0] - before[0]) / count,
        involuntary=(after[1] - before[1]) / count,
    )
    return round_, times


def alone(way: Way, count: int) -> list[int]:
    """Return the nanoseconds of runs of the session alone."""
    asked = json.dumps({"count": count, "pause": way.pause}).encode()
    with grpc.insecure_channel(way.target.process.address()) as channel:
        taken: list[int] = json.loads(channel.unary_unary(f"/{FLOOR}/{METHOD}", None, None)(asked))
    return taken


def steps_of(calls: list[list[int]], times: list[tuple[int, int]]) -> list[list[float]]:
    """Return the microseconds of each step of each call.

    Raises:
        RuntimeError: a call lacks a step. The service has changed: see bench.one_call_steps.
    """
    found = []
    for stamps, (begin, end) in zip(calls, times, strict=True):
        borders = [begin, *stamps, end]
        if len(borders) != len(names()) + 1:
            raise RuntimeError(f"a call has {len(stamps)} stamps; is bench.one_call_steps current?")
        pairs = itertools.pairwise(borders)
        found.append([(later - earlier) / 1000 for earlier, later in pairs])
    return found


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Return all rounds, and the steps of each round. The first round is left out: warm-up."""
    rounds: dict[str, list[Round]] = defaultdict(list)
    times: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps.json"
        with started(servers(options, stamps)) as targets, opened(targets) as ways:
            others = Others()
            for number, way in turns(ways, options.rounds):
                round_, taken = run(way, options.calls)
                if number >= 0:
                    rounds[way.name].append(round_)
                if way.name == "stamped":
                    times += taken
            share = others.share()
        steps = steps_of(json.loads(stamps.read_text(encoding="utf-8")), times)[options.calls :]
    return {"rounds": rounds, "steps": steps, "others": share}


def parse() -> argparse.Namespace:
    """Read the options."""
    made = parser("bench.one_call", __doc__, "one-call.md", rounds=15)
    made.add_argument("--calls", type=int, default=200, help="of each way in each round")
    return parsed(made, Path("build/serving/bundle"))


def command(options: argparse.Namespace) -> str:
    """Return the command line, without paths of this machine."""
    before = "" if options.before is None else " --before CHECKOUT"
    return f"python -m bench.one_call --rounds {options.rounds} --calls {options.calls}{before}"


def main() -> None:
    options = parse()
    random.seed(0)
    found = measured(options)
    found |= {
        "command": command(options),
        "machine": machine(PACKAGES),
        "revisions": {"after": revision(ROOT)}
        | ({} if options.before is None else {"before": revision(options.before)}),
    }
    publish(options.out, *report(found))


if __name__ == "__main__":
    main()
