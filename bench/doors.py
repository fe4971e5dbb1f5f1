"""Throughput and CPU of each door of one service, beside infinity's HTTP, in turns within one run.

    python -m bench.doors

It needs the model of `nox -s serving`, and writes bench/results/doors.md. The service cuts long
texts, as infinity does. A second service has an engine that answers at once: what it costs is the
front alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.frame.machine import Others, machine
from bench.frame.processes import Failed, Process
from bench.frame.report import command, parser, publish, table
from bench.frame.rounds import turns
from bench.serving.contestants import Setting, setting_of
from bench.serving.doors import CONTRACT, INFINITY, OURS, Door
from bench.serving.served import Front, Headlight, Infinity
from bench.serving.workloads import BATCHES, ONE, SINGLES, WORKLOADS, Workload, percentile
from headlight.runtime import Bundle

WORK = Path("build/serving")
MEASURED = [each for each in WORKLOADS if each.name in {ONE, SINGLES, BATCHES}]
FRONT_REPEATS = 10  # of all texts, which take the front a fraction of a second
ALONE = ", the front alone"
Runs = dict[tuple[str, str], list[dict[str, Any]]]  # by title of the table and name of the door


@dataclasses.dataclass(frozen=True)
class Way:
    """One door of one process.

    Attributes:
        front: the process is a `Front`.
    """

    door: Door
    target: str
    process: Process
    front: bool = False

    def title(self, workload: Workload) -> str:
        """Return the title of its table."""
        return workload.name + (ALONE if self.front else "")


def ways_of(service: Headlight) -> list[Way]:
    """Return all doors of a service."""
    return [
        Way(
            door,
            service.rest if door.over_http else service.target,
            service.process,
            isinstance(service, Front),
        )
        for door in OURS
    ]


def measure(setting: Setting, ways: list[Way], rounds: int, count: int) -> Runs:
    """Return all runs. One round of warm-up is left out."""
    runs: Runs = {}
    for number, workload in turns(MEASURED, rounds):
        for way in random.sample(ways, len(ways)):
            taken = run(setting, way, workload, count)
            if number >= 0:
                runs.setdefault((way.title(workload), way.door.name), []).append(taken)
    return runs


def run(setting: Setting, way: Way, workload: Workload, count: int) -> dict[str, Any]:
    """Run a workload through a door once."""
    order = list(range(int(count * workload.share) or 1)) * (FRONT_REPEATS if way.front else 1)
    cpu = way.process.cpu_seconds
    cost = setting.load.ask(
        "door",
        door=way.door.name,
        model=Bundle(setting.bundle).manifest.name,
        target=way.target,
        order=order,
        callers=workload.callers,
        group=workload.group,
    )
    used = way.process.cpu_seconds - cpu
    return {
        "texts_per_s": len(order) / cost["seconds"],
        "cpu_ms": 1000 * used / len(order),
        "p50_ms": percentile(cost["latencies"], 50),
    }


def section(title: str, about: str, runs_of: Runs) -> list[str]:
    """Return the lines of one section."""
    medians = {
        door: {key: statistics.median(each[key] for each in runs) for key in runs[0]}
        for (name, door), runs in runs_of.items()
        if name == title
    }
    ours, rows = medians[CONTRACT.name], []
    for door in (*OURS, INFINITY):
        if (numbers := medians.get(door.name)) is not None:
            to = {key: f"{numbers[key] / ours[key]:.2f}" for key in numbers}
            rate, cpu = f"{numbers['texts_per_s']:.0f}", f"{numbers['cpu_ms']:.3g}"
            last = f"{numbers['p50_ms']:.1f}"
            rows.append((door.name, rate, to["texts_per_s"], cpu, to["cpu_ms"], last))
    heading = ("door", "texts/s", "to gRPC", "server CPU, ms a text", "to gRPC", "p50, ms")
    return [f"## {title}", "", f"{about}.", "", *table(heading, rows), ""]


def main() -> None:
    """Measure and publish."""
    made = parser("bench.doors", __doc__, "doors.md", rounds=5)
    made.add_argument("--texts", type=int, default=400)
    made.add_argument("--bundle", type=Path, default=WORK / "bundle")
    made.add_argument("--no-peer", action="store_true", help="without infinity")
    options = made.parse_args()
    setting = setting_of(WORK, WORK / "model", options.bundle, options.texts)
    tokens = sum(setting.tokens)
    service = Headlight("doors", "fp32", setting, ("--provider", "cpu", "--truncation", "end"))
    front, others = Front(setting), Others()
    python = Path(".nox/peer-infinity/bin/python").absolute()
    peer = None if options.no_peer else Infinity("infinity torch", setting, python, "torch")
    try:
        with contextlib.ExitStack() as started:
            started.callback(setting.load.close)
            for each in (service, front, *([] if peer is None else [peer])):
                started.callback(each.close)
                each.start()
            ways = [*ways_of(service), *ways_of(front)]
            if peer is not None:
                ways.append(Way(INFINITY, peer.target, peer.process))
            runs = measure(setting, ways, options.rounds, options.texts)
    except Failed as error:
        sys.exit(f"bench.doors: {error}")
    versions = machine(("grpcio", "uvicorn", "httptools", "orjson", "onnxruntime"))
    publish(
        options.out,
        [
            "# The doors of one service",
            "",
            f"`{command('bench.doors')}` on {versions}. {options.texts} texts of "
            f"{tokens} tokens in all, fp32,",
            f"medians of {options.rounds} interleaved rounds. Other programs took "
            f"{100 * others.share():.0f} % of the CPUs. The front alone: the same service with an",
            "engine that answers at once.",
            "",
            *(
                line
                for suffix in ("", ALONE)
                for workload in MEASURED
                for line in section(workload.name + suffix, workload.about.split(";")[0], runs)
            ),
        ],
    )


if __name__ == "__main__":
    main()
