"""Texts that come alone beside texts in lists: texts a second, and server CPU by thread.

    python -m bench.singles [--bundle BUNDLE] [--precisions fp32 bf16]

It needs the bundle of `nox -s serving`, and writes bench/results/singles.md, and .json with all
rounds. The same texts come from 64 callers with one each, and from 8 callers with 32 each. A
precision is that of ONNX Runtime, or of OpenVINO ("openvino-bf16").
"""

from __future__ import annotations

import argparse
import random
import re
import urllib.request
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from bench.attention_served import WORK
from bench.frame.machine import Others, machine
from bench.frame.report import command, parser, publish, table
from bench.frame.rounds import ratios, spread, turns
from bench.front import PACKAGES, Server, Target, started
from bench.serving.contestants import Setting, setting_of

TEXTS = 256
LEAST_MS = 0.005  # of a row
GROUPS = {"single": (64, 1), "list": (8, 32)}  # callers, and texts of a call
Runs = dict[str, list[dict[str, Any]]]  # of each server
PRECISIONS = ("fp32", "int8", "openvino-fp32", "openvino-bf16", "openvino-int8")


def threads(pid: int) -> dict[str, float]:
    """Return the CPU of a process's threads in seconds, by name without numbers.

    bench.front_server names its threads. Those of libraries have the name of their maker.
    """
    taken = defaultdict[str, float](float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = re.sub(r"[-_\d]+$", "", (task / "comm").read_text().strip())
            taken[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError):  # it has ended
            continue
    return taken


def sums(target: Target) -> dict[str, float]:
    """Return the sums of the service's metrics of batches, over all labels."""
    address = target.process.address("metrics")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    totals = defaultdict[str, float](float)
    for line in lines:
        name, _, number = line.partition(" ")
        totals[name.partition("{")[0]] += float(number) if not line.startswith("#") else 0
    return totals


def less(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: number - before.get(name, 0.0) for name, number in after.items()}


def measure(setting: Setting, target: Target, way: str) -> dict[str, Any]:
    """Return the speed of one run, the server's CPU of a text by thread, and its batches."""
    callers, group = GROUPS[way]
    order = random.sample(range(TEXTS), TEXTS)
    before, counted = threads(target.process.pid), sums(target)
    answer = setting.load.ask(
        "closed", target=target.process.address(), order=order, callers=callers, group=group
    )
    taken = less(threads(target.process.pid), before)
    batches = less(sums(target), counted)
    count = batches["headlight_batch_items_count"]
    return {
        "way": way,
        "texts_per_s": TEXTS / answer["seconds"],
        "cpu_ms": {name: 1000 * seconds / TEXTS for name, seconds in taken.items()},
        "texts a batch": TEXTS / count,
        "padding": batches["headlight_padding_ratio_sum"] / count,
    }


def summary(runs: Runs) -> list[str]:
    """Return the table of speeds: medians, and the median and range of the ratios of the rounds."""
    rows = []
    for name, of_server in runs.items():
        speeds = {
            way: [run["texts_per_s"] for run in of_server if run["way"] == way] for way in GROUPS
        }
        both = [f"{median(of_way):.0f}" for of_way in speeds.values()]
        ratio, least, most = spread(ratios(speeds["single"], speeds["list"]))
        rows.append((name, *both, f"{ratio:.2f} ({least:.2f} to {most:.2f})"))
    return table(("texts a second", *GROUPS, "single over list"), rows)


def by_thread(runs: list[dict[str, Any]]) -> list[str]:
    """Return the table of medians of one server."""

    def of(way: str, take: str) -> float:
        chosen = [run for run in runs if run["way"] == way]
        return float(median(run.get(take) or run["cpu_ms"].get(take, 0.0) for run in chosen))

    names = sorted({name for run in runs for name in run["cpu_ms"]}, key=lambda n: -of("single", n))
    totals = {
        way: median(sum(run["cpu_ms"].values()) for run in runs if run["way"] == way)
        for way in GROUPS
    }
    rows = [
        (name, *(f"{of(way, name):.3f}" for way in GROUPS), f"{single - listed:+.3f}")
        for name in names
        if max(single := of("single", name), listed := of("list", name)) >= LEAST_MS
    ]
    whole = f"{totals['single'] - totals['list']:+.3f}"
    rows.append(("**all**", *(f"{totals[way]:.3f}" for way in GROUPS), whole))
    for name in ("texts a batch", "padding"):
        rows.append((name, *(f"{of(way, name):.2f}" for way in GROUPS), ""))
    return table(("CPU of a text, ms, by thread", *GROUPS, "single less list"), rows)


def servers(options: argparse.Namespace) -> list[Server]:
    """Return the servers to start: one of each precision, and of each checkout."""
    made = []
    for precision in options.precisions:
        name = precision.removeprefix("openvino-")
        flags = (
            *("--bundle", str(options.bundle.absolute()), "--truncation", "end"),
            *("--provider", "cpu" if name == precision else "openvino", "--precision", name),
        )
        made.append(Server(precision, "real", flags))
        if options.before:
            before = options.before.absolute()
            made.append(Server(f"{precision}, before", "real", flags, before))
    return made


def main() -> None:
    """Measure and publish."""
    made = parser("bench.singles", __doc__, "singles.md", rounds=5)
    made.add_argument("--bundle", type=Path, default=WORK / "bundle")
    made.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    made.add_argument("--before", type=Path, help="another checkout, in the same rounds")
    options = made.parse_args()
    random.seed(0)
    setting, others = setting_of(WORK, WORK / "model", options.bundle, TEXTS), Others()
    everyone = servers(options)
    runs: Runs = {server.name: [] for server in everyone}
    try:
        with started(everyone) as targets:
            ways = [(target, way) for target in targets for way in GROUPS]
            for number, (target, way) in turns(ways, options.rounds):
                taken = measure(setting, target, way)
                if number >= 0:
                    runs[target.name].append({"round": number, **taken})
    finally:
        setting.load.close()
    publish(
        options.out,
        [
            "# A text alone and in a list",
            "",
            f"`{command('bench.singles')}` on {machine(PACKAGES)}. {TEXTS} inputs of the lengths",
            "of docstrings, from 64 callers with one each and from 8 callers with 32 each;",
            f"medians of {options.rounds} interleaved rounds. Other programs took "
            f"{100 * others.share():.0f} % of the CPUs.",
            "",
            *summary(runs),
            "",
            *(
                line
                for name, of_server in runs.items()
                for line in (f"## {name}", "", *by_thread(of_server), "")
            ),
        ],
        [{"server": name, **run} for name, of_server in runs.items() for run in of_server],
    )


if __name__ == "__main__":
    main()
