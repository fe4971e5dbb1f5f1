"""Report of bench.one_call: the whole by server, the two criteria, and the steps of a call."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.frame.report import table
from bench.one_call_steps import GRPC, SESSION, names

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


def whole(title: str, own: list[Round], session: list[Round]) -> list[str]:
    """Return the row of one way."""
    cells = [median(each.p(50) for each in own), median(each.p(90) for each in own)]
    cells += [difference(own, session), median(each.cpu for each in own)]
    switched = (median(each.voluntary for each in own), median(each.involuntary for each in own))
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
                for each in own
            ]
            for way, own in rounds.items()
        },
        "steps_p50_microseconds": {
            name: [round(median(call[place] for call in part), 1) for part in by_round]
            for place, name in enumerate(names())
        },
    }
