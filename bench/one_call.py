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
from statistics import median
from typing import Any, NamedTuple

import grpc
import numpy as np

from bench.frame.machine import Others, machine, revision
from bench.frame.processes import ROOT
from bench.frame.report import parser, publish, table
from bench.frame.rounds import turns
from bench.front import FLOOR, PACKAGES, SERVICE, Server, Target, parsed, request, started
from bench.front_server import METHOD
from bench.one_call_steps import GRPC, SESSION, names

PAUSE_SECONDS = 0.002  # before each run of the session; a lone caller leaves such pauses
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
    result = [
        Server("echo", "floor"),
        *(Server(kind, kind, bundle) for kind in ("queue", "threads", "session")),
        Server("Headlight", "real", bundle),
        Server("stamped", "stamped", (*bundle, "--stamps", str(stamps))),
    ]
    if options.before is not None:
        result.append(Server("Headlight before", "real", bundle, options.before))
    return result


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
    fields = {"inputs": [{"text": text.text}], "outputs": {"pooled": {}}, "encoding": "base64"}
    connection.request("POST", "/v1/encode", json.dumps(fields))
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"HTTP {answer.status}: {body!r}")


def switches(pid: int) -> tuple[int, int]:
    """Return the voluntary and involuntary context switches of a process's living threads."""
    counts = [0, 0]
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # the thread has ended
            for line in status.read_text(encoding="ascii", errors="replace").splitlines():
                name, _, value = line.partition(":")
                if name.endswith("ctxt_switches"):
                    counts[name.startswith("non")] += int(value)
    return counts[0], counts[1]


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
    message = json.dumps({"count": count, "pause": way.pause}).encode()
    with grpc.insecure_channel(way.target.process.address()) as channel:
        taken: list[int] = json.loads(
            channel.unary_unary(f"/{FLOOR}/{METHOD}", None, None)(message)
        )
    return taken


def steps_of(calls: list[list[int]], times: list[tuple[int, int]]) -> list[list[float]]:
    """Return the microseconds of each step of each call.

    Raises:
        RuntimeError: a call lacks a step. The service has changed: see bench.one_call_steps.
    """
    steps = []
    for stamps, (begin, end) in zip(calls, times, strict=True):
        borders = [begin, *stamps, end]
        if len(borders) != len(names()) + 1:
            raise RuntimeError(f"a call has {len(stamps)} stamps; is bench.one_call_steps current?")
        pairs = itertools.pairwise(borders)
        steps.append([(later - earlier) / 1000 for earlier, later in pairs])
    return steps


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


ABOVE_SESSION_MS, ABOVE_QUEUE_MS = 1.0, 0.4
TITLES = {
    "session": "the session, in a tight loop",
    "paused": "the session, after a pause of 2 ms",
    "echo": "bare echo, grpc.aio",
    "queue": "minimal queueing server, grpc.aio",
    "threads": "minimal queueing server, threads",
    "Headlight": "Headlight",
    "Headlight before": "Headlight before",
    "stamped": "Headlight with time stamps",
    "HTTP": "Headlight over HTTP",
}

COLUMNS = (
    *("", "p50, µs", "p90, µs", "above the session"),
    *("CPU, µs", "voluntary switches", "involuntary"),
)


class Round(NamedTuple):
    """Calls of one way in one round. Times in microseconds; counts for each call."""

    latencies: list[float]
    cpu: float
    voluntary: float
    involuntary: float

    def p(self, share: float) -> float:
        """Return a percentile of the latencies."""
        return float(np.percentile(self.latencies, share))


def report(run: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the lines of the page, and the numbers of all rounds for the JSON.

    Args:
        run: `rounds`, lists of Round by way; `steps`, microseconds of each step of each call;
            `others`, CPU share of other programs; `command`; `machine`; `revisions`.
    """
    rounds: dict[str, list[Round]] = run["rounds"]
    ways = [way for way in TITLES if way in rounds]
    count, calls = len(rounds["session"]), len(rounds["session"][0].latencies)
    lines = [
        "# One unary call, by step",
        "",
        f"`{run['command']}` on {run['machine']}. One caller, one short text, vectors; "
        f"medians of {count} interleaved rounds of {calls} calls. "
        f"Other programs took {100 * run['others']:.0f} % of the CPUs. "
        f"Commit {run['revisions']['after']}"
        + (f"; before: {run['revisions']['before']}." if "before" in run["revisions"] else "."),
        "",
        "## What was to be reached",
        "",
        *criteria(rounds),
        "",
        "## The whole call",
        "",
        "CPU and context switches are those of the server's process, for each call. Both minimal "
        "servers hand each request through a queue to one thread that runs the same session on "
        "the same ids. A difference is the median of the rounds' own.",
        "",
        *table(COLUMNS, (whole(TITLES[way], rounds[way], rounds["session"]) for way in ways)),
        "",
        "## The steps of a call",
        "",
        *steps(run["steps"], rounds),
    ]
    return lines, numbers(run, rounds)


def difference(more: list[Round], less: list[Round]) -> float:
    """Return the median of the rounds' differences of p50, in microseconds."""
    return median(one.p(50) - other.p(50) for one, other in zip(more, less, strict=True))


def criteria(rounds: dict[str, list[Round]]) -> list[str]:
    """Return a table of the criteria: reached or missed."""
    rows, ours = [], rounds["Headlight"]
    for way, limit in (
        ("session", ABOVE_SESSION_MS),
        ("queue", ABOVE_QUEUE_MS),
        ("threads", ABOVE_QUEUE_MS),
    ):
        above = difference(ours, rounds[way]) / 1000
        verdict = "reached" if above <= limit else "missed"
        rows.append((TITLES[way], f"{limit:.1f}", f"{above:.2f}", verdict))
    return table(("p50 of Headlight less p50 of", "at most, ms", "measured, ms", ""), rows)


def whole(title: str, rounds: list[Round], session: list[Round]) -> list[str]:
    """Return the row of one way."""
    cells = [median(each.p(50) for each in rounds), median(each.p(90) for each in rounds)]
    cells += [difference(rounds, session), median(each.cpu for each in rounds)]
    switched = (
        median(each.voluntary for each in rounds),
        median(each.involuntary for each in rounds),
    )
    return [title, *(f"{value:.0f}" for value in cells), *(f"{value:.1f}" for value in switched)]


def steps(calls: list[list[float]], rounds: dict[str, list[Round]]) -> list[str]:
    """Return the table of the steps, their sums by part, and the cost of the stamps."""
    columns = dict(zip(names(), zip(*calls, strict=True), strict=True))
    middles = {name: median(column) for name, column in columns.items()}
    rows = [
        (name, f"{middles[name]:.0f}", f"{np.percentile(column, 90):.0f}")
        for name, column in columns.items()
    ]
    transport = sum(value for name, value in middles.items() if name.startswith(GRPC))
    session, total = middles[SESSION], sum(middles.values())
    cost = difference(rounds["stamped"], rounds["Headlight"])
    return [
        *table(
            ("step", "p50, µs", "p90, µs"), [*rows, ("**sum of the medians**", f"{total:.0f}", "")]
        ),
        "",
        f"gRPC has {transport:.0f} µs, the session {session:.0f} µs, Headlight "
        f"{total - transport - session:.0f} µs. The whole with time stamps, less without: "
        f"{cost:.0f} µs.",
    ]


def numbers(run: dict[str, Any], rounds: dict[str, list[Round]]) -> dict[str, Any]:
    """Return all rounds, with percentiles instead of each call."""
    size = len(rounds["stamped"][0].latencies)
    by_round = [run["steps"][at : at + size] for at in range(0, len(run["steps"]), size)]
    return {
        **{name: run[name] for name in ("command", "machine", "revisions", "others")},
        "microseconds": {
            way: [
                {
                    "p50": round(each.p(50), 1),
                    "p90": round(each.p(90), 1),
                    "cpu": round(each.cpu, 1),
                    "voluntary_switches": round(each.voluntary, 2),
                    "involuntary_switches": round(each.involuntary, 2),
                }
                for each in of_way
            ]
            for way, of_way in rounds.items()
        },
        "steps_p50_microseconds": {
            name: [round(median(call[at] for call in part), 1) for part in by_round]
            for at, name in enumerate(names())
        },
    }


def main() -> None:
    options = parse()
    random.seed(0)
    result = measured(options)
    result |= {
        "command": command(options),
        "machine": machine(PACKAGES),
        "revisions": {"after": revision(ROOT)}
        | ({} if options.before is None else {"before": revision(options.before)}),
    }
    publish(options.out, *report(result))


if __name__ == "__main__":
    main()
