"""Bulk jobs on the same rows, in turns: rates, start, CPU.

    python -m bench.bulk --rows 3000 --rounds 2

Each contestant embeds a few rows and then all rows. The rate is that of the rows between, so what
it takes to start is apart. Writes bench/results/bulk.json and bulk.md. The machine must be idle.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.bulk.contestants import CORES, Contestant, Cost, contestants, run
from bench.bulk.report import faults, lines, numbers_of
from bench.frame.machine import Others, machine
from bench.frame.processes import ANY_PORTS, Failed, Service, serve
from bench.frame.report import RESULTS, command, parser, publish, save
from bench.frame.rounds import turns
from bench.serving.workloads import write_texts
from headlight.runtime import Manifest

FEW = 32
TARGET = "TARGET"  # stands for the address of the service, which each run starts anew


def parse() -> argparse.Namespace:
    made = parser("bench.bulk", __doc__, rounds=2)
    made.add_argument("--rows", type=int, default=3000)
    made.add_argument("--texts", type=int, default=1000, help="different ones among the rows")
    made.add_argument(
        "--work", type=Path, default=Path("build/serving"), help="of `nox -s serving`"
    )
    made.add_argument("--only", nargs="*", metavar="TEXT", help="names that hold one of these")
    made.add_argument("--again", action="store_true", help="only write bulk.md from the numbers")
    made.add_argument("--out", type=Path, default=RESULTS / "bulk", help="without its ending")
    return made.parse_args()


def write_rows(folder: Path, texts: list[str], rows: int) -> Path:
    """Write a folder with one Parquet file of the texts, again and again, in random order."""
    draw = random.Random(30)
    body = [texts[at % len(texts)] for at in range(rows)]
    draw.shuffle(body)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({"id": range(rows), "body": body}), folder / "docs.parquet", row_group_size=1000
    )
    return folder


def vectors(out: Path) -> np.ndarray[Any, Any]:
    """Return the vectors of an output, by id: [N, D]."""
    path = out if out.exists() else out.with_suffix("")
    table = ds.dataset(path, format="parquet").to_table(columns=["id", "embedding"]).sort_by("id")
    flat = table.column("embedding").combine_chunks().flatten()
    return np.asarray(flat, np.float32).reshape(len(table), -1)


def once(contestant: Contestant, inputs: list[Path], work: Path) -> tuple[list[Cost], Any]:
    """Run a contestant on few and on all rows. Return the costs, and the vectors of all."""
    out = work / f"{contestant.name.replace(' ', '-').replace(',', '')}.parquet"
    log = out.with_suffix(".log")
    cost = [run(contestant, source, out, log) for source in inputs]
    return cost, vectors(out)


def measure(field: list[Contestant], bundle: Path, inputs: list[Path], rounds: int) -> Any:
    """Run all contestants in turns. Return their costs, and the largest distances of vectors."""
    work = inputs[0].parent
    costs: dict[str, list[list[Cost]]] = {each.name: [] for each in field}
    by_name: dict[str, Any] = {}
    for number, contestant in turns(field, rounds, warm_up=0):
        print(f"round {number + 1}: {contestant.name}", file=sys.stderr, flush=True)
        with contextlib.ExitStack() as stack:
            ready = contestant
            if contestant.asks:
                service = Service(serve(bundle, *ANY_PORTS), work / "server.log")
                stack.callback(service.close)
                ready = with_target(contestant, service.address())
            try:
                cost, made = once(ready, inputs, work)
            except (Failed, OSError) as error:
                print(error, file=sys.stderr)
                continue
        costs[contestant.name].append(cost)
        by_name[contestant.name] = made
    reference = by_name["engine"]
    return costs, {name: float(np.abs(made - reference).max()) for name, made in by_name.items()}


def with_target(contestant: Contestant, target: str) -> Contestant:
    """Return the contestant with the address of the service in its command."""
    command = contestant.command
    return dataclasses.replace(
        contestant,
        command=lambda source, out: [part.replace(TARGET, target) for part in command(source, out)],
    )


def main() -> None:
    options = parse()
    if options.again:
        write_report(options.out)
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # of all contestants
    bundle, model = options.work / "bundle", options.work / "model"
    texts = options.work / f"docstrings-{options.texts}.json"
    write_texts(texts, model / "tokenizer.json", options.texts)
    read = json.loads(texts.read_text(encoding="utf-8"))
    rows = [FEW, options.rows]
    inputs = [write_rows(options.work / f"bulk/{count}", read["texts"], count) for count in rows]
    field = [
        each
        for each in contestants(bundle, model, options.work / "onnx", TARGET)
        if not options.only or any(part in each.name for part in options.only)
    ]
    names = {each.name for each in field}
    if not {"engine", "local"} <= names:
        raise SystemExit("--only: leave engine and local in, to which the others are compared")
    others = Others()
    costs, distances = measure(field, bundle, inputs, options.rounds)
    manifest = Manifest.parse(json.loads((bundle / "manifest.json").read_text(encoding="utf-8")))
    facts = {
        "machine": machine(("onnxruntime", "pyarrow", "numpy")),
        "others": others.share(),
        "command": command("bench.bulk"),
        "rows": options.rows,
        "few": FEW,
        "mean_tokens": float(np.mean(read["tokens"])),
        "mean_bytes": float(np.mean([len(text.encode()) for text in read["texts"]])),
        "dimensions": manifest.architecture.pooled_dim,
        "model": "all-MiniLM-L6-v2",
    }
    numbers = numbers_of(facts, field, costs, distances)
    save(options.out.with_suffix(".json"), numbers)
    write_report(options.out)


def write_report(out: Path) -> None:
    """Write the report of this run, with the numbers of `nox -s bulk` if there are any."""
    numbers = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    text = lines(numbers)
    kills = out.with_name(f"{out.name}-faults.json")
    if kills.exists():
        text += ["", *faults(json.loads(kills.read_text(encoding="utf-8")))]
    publish(out.with_suffix(".md"), text)


if __name__ == "__main__":
    main()
