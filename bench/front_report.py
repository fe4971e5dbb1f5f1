"""Report of bench.front: the cost of the front, now and before."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.frame.report import table
from bench.frame.rounds import ratios
from bench.front_messages import CONCURRENT, WORKLOADS, Workload

# By server and workload, the server's CPU for a message in each round, in microseconds.
Rounds = dict[str, dict[str, list[float]]]
UNARY_TEXT = WORKLOADS[0]


def report(run: dict[str, Any]) -> list[str]:
    """Return the lines of the page.

    Args:
        run: `machine`, a clause; `revisions`, of this checkout as "after" and perhaps of another
            as "before"; `microseconds`, which are Rounds.
    """
    found: Rounds = run["microseconds"]
    compares = "before" in run["revisions"]
    command = "python -m bench.front --before CHECKOUT" if compares else "nox -s bench"
    rounds = len(found["floor"][UNARY_TEXT.name])
    lines = [
        "# What the front costs",
        "",
        f"`{command}` on {run['machine']}. CPU of the server's process for each message, "
        f"{CONCURRENT[1]} in flight (of 256 texts {CONCURRENT[256]}), texts of some 10 tokens; "
        f"medians of {rounds} interleaved rounds. "
        "Bare gRPC: grpc.aio that takes and gives bytes of the same number. "
        "The front: Headlight with an engine that answers at once.",
        "",
        *front_table(found),
    ]
    if compares:
        lines += ["", *comparison(found, run["revisions"])]
    return lines


def front_table(found: Rounds) -> list[str]:
    """Return a table of this checkout beside bare gRPC."""
    rows = []
    for load in WORKLOADS:
        floor, front, real = (median(found[name][load.name]) for name in ("floor", "front", "real"))
        cells = [f"{value:.0f}" for value in (floor, front, front - floor, real)]
        rows.append((load.name, *cells, f"{1e6 * load.size / front:,.0f}"))
    heading = ("server CPU, µs", "bare gRPC", "the front", "above the bare one", "with the model")
    return table((*heading, "the front in texts/s of a core"), rows)


def comparison(found: Rounds, revisions: dict[str, str]) -> list[str]:
    """Return a table of this checkout beside another one."""
    own = compared(above(found, "front before", UNARY_TEXT), above(found, "front", UNARY_TEXT))
    rows = []
    for load in WORKLOADS:
        columns = [
            compared(found["front before"][load.name], found["front"][load.name]),
            compared(above(found, "front before", load), above(found, "front", load)),
            compared(found["real before"][load.name], found["real"][load.name]),
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
        f"{own[0]:.0f} µs before, {own[1]:.0f} µs after, ratio {own[2]:.2f}.",
        "",
        *table(heading, rows),
    ]


def above(found: Rounds, name: str, load: Workload) -> list[float]:
    """Return a server's CPU above bare gRPC, by round."""
    floor = found["floor"][load.name]
    return [taken - least for taken, least in zip(found[name][load.name], floor, strict=True)]


def compared(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """Return the medians of two servers, and of the ratios of their rounds."""
    return median(before), median(after), median(ratios(after, before))
