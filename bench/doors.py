"""Throughput and CPU of each door of one service, beside infinity's HTTP, in turns within one run.

    python -m bench.doors

It needs the model of `make serving`, and writes bench/results/doors.md. The service cuts long
texts, as infinity does.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.measuring import Others, machine, publish
from bench.serving.contestants import Setting
from bench.serving.doors import CONTRACT, INFINITY, OURS, Door
from bench.serving.processes import Failed, Worker
from bench.serving.served import Headlight, Infinity
from bench.serving.texts import write_texts
from bench.serving.workloads import BATCHES, ONE, SINGLES, WORKLOADS, Workload, percentile
from headlight.runtime import Bundle

WORK = Path("build/serving")
OUT = Path("bench/results/doors.md")
MEASURED = (ONE, SINGLES, BATCHES)
Runs = dict[tuple[str, str], list[dict[str, Any]]]


def target_of(door: Door, service: Headlight, peer: Infinity | None) -> str | None:
    """Return the address of a door; None: it takes no part."""
    if door is INFINITY:
        return None if peer is None else peer.target
    return service.rest if door.over_http else service.target


def measure(
    setting: Setting, service: Headlight, peer: Infinity | None, rounds: int, count: int
) -> Runs:
    """Return all runs by workload and door. One round of warm-up is left out."""
    found: Runs = {}
    workloads = [each for each in WORKLOADS if each.name in MEASURED]
    for number in range(rounds + 1):
        for workload in workloads:
            doors = [*OURS, INFINITY]
            for door in random.sample(doors, len(doors)):
                target = target_of(door, service, peer)
                if target is None:
                    continue
                process = service.process if door is not INFINITY or peer is None else peer.process
                taken = run(setting, door, target, workload, count, process)
                if number:
                    found.setdefault((workload.name, door.name), []).append(taken)
    return found


def run(
    setting: Setting, door: Door, target: str, workload: Workload, count: int, process: Any
) -> dict[str, Any]:
    """Run a workload through a door once."""
    order = list(range(int(count * workload.share) or 1))
    cpu = process.cpu_seconds
    told = setting.load.ask(
        "door",
        door=door.name,
        model=Bundle(setting.bundle).manifest.name,
        target=target,
        order=order,
        callers=workload.callers,
        group=workload.group,
    )
    used = process.cpu_seconds - cpu
    return {
        "texts_per_s": len(order) / told["seconds"],
        "cpu_ms": 1000 * used / len(order),
        "p50_ms": percentile(told["latencies"], 50),
    }


def table(workload: Workload, found: Runs) -> list[str]:
    """Return the lines of one workload's table."""
    lines = [
        f"## {workload.name}",
        "",
        f"{workload.about.split(';')[0]}.",
        "",
        "| door | texts/s | to gRPC | server CPU, ms a text | to gRPC | p50, ms |",
        "|---|---|---|---|---|---|",
    ]
    medians = {
        door: {key: statistics.median(each[key] for each in runs) for key in runs[0]}
        for (name, door), runs in found.items()
        if name == workload.name
    }
    ours = medians[CONTRACT.name]
    for door in (*OURS, INFINITY):
        if (own := medians.get(door.name)) is not None:
            lines.append(
                f"| {door.name} | {own['texts_per_s']:.0f} | "
                f"{own['texts_per_s'] / ours['texts_per_s']:.2f} | {own['cpu_ms']:.2f} | "
                f"{own['cpu_ms'] / ours['cpu_ms']:.2f} | {own['p50_ms']:.1f} |"
            )
    return [*lines, ""]


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(prog="python -m bench.doors", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--bundle", type=Path, default=WORK / "bundle")
    parser.add_argument("--no-peer", action="store_true", help="without infinity")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    texts = (WORK / f"docstrings-{options.texts}.json").absolute()
    write_texts(texts, options.bundle / "tokenizer.json", options.texts)
    tokens = json.loads(texts.read_text(encoding="utf-8"))["tokens"]
    load = Worker(sys.executable, "bench.serving.load", str(texts), log=WORK / "logs/load.log")
    model, bundle = (WORK / "model").absolute(), options.bundle.absolute()
    setting = Setting(sys.executable, model, bundle, texts, tokens, [], WORK.absolute(), load)
    service = Headlight("doors", "fp32", setting, ("--provider", "cpu", "--truncation", "end"))
    peer: Infinity | None = None
    others = Others()
    try:
        service.start()
        if not options.no_peer:
            peer = Infinity(
                "infinity torch", setting, Path(".venv-infinity/bin/python").absolute(), "torch"
            )
            peer.start()
        found = measure(setting, service, peer, options.rounds, options.texts)
    except Failed as error:
        sys.exit(f"bench.doors: {error}")
    finally:
        for each in (service, peer):
            if each is not None:
                each.close()
        load.close()
    shown = " ".join(["python -m bench.doors", *sys.argv[1:]])
    versions = machine(("grpcio", "uvicorn", "httptools", "orjson", "onnxruntime"))
    publish(
        options.out,
        [
            "# The doors of one service",
            "",
            f"`{shown}` on {versions}. {options.texts} texts of {sum(tokens)} tokens in all, fp32,",
            f"medians of {options.rounds} interleaved rounds. Other programs took "
            f"{100 * others.share():.0f} % of the CPUs.",
            "",
            *(
                line
                for workload in WORKLOADS
                if workload.name in MEASURED
                for line in table(workload, found)
            ),
        ],
    )


if __name__ == "__main__":
    main()
