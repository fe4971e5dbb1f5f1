"""`python -m model.lab`: train, measure, draw, and write the page. `make lab` calls it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from model.lab import properties, tasks
from model.lab.page import write
from model.lab.pictures import attention, encodings, measured
from model.lab.results import load, save
from model.lab.reversal import LENGTH
from model.lab.runner import EXPERIMENTS, all_jobs, run_all


def main() -> None:
    """Everything, or what the options leave of it."""
    options = _parser().parse_args()
    results = load(options.out) if options.only or options.draw else {}
    if not options.draw:
        results |= measure(options)
    save(results, options.out)
    results = load(options.out)  # what is drawn and quoted is what the file says, to its last digit
    drawn = [draw(results, options.out) for draw in (measured.draw, attention.draw)]
    for path in (*encodings.draw(options.out), *drawn[0], *drawn[1], write(results, options.page, options.out)):
        print(f"wrote {path}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The results of what the options name."""
    began = time.monotonic()
    seeds = range(1 if options.quick else options.seeds)
    jobs = all_jobs(options.only or list(EXPERIMENTS), seeds, quick=options.quick)
    return {
        **run_all(jobs, options.checkpoints),
        "baselines": tasks.baselines(LENGTH),
        "properties": [dataclasses.asdict(row) for row in properties.measure()],
        "about": {
            "seeds": list(seeds),
            "quick": options.quick,
            "minutes": round((time.monotonic() - began) / 60, 1),
            "machine": f"{len(os.sched_getaffinity(0))} cores ({platform.machine()})",
            "versions": f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}",
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model.lab", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("docs/positions"), help="folder of results.json and the pictures"
    )
    parser.add_argument(
        "--page", type=Path, default=Path("docs/positions.md"), help="the page, beside or above that folder"
    )
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("build/lab"), help="folder that gets a checkpoint of each training"
    )
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind; default 3")
    parser.add_argument(
        "--only", action="append", choices=list(EXPERIMENTS), help="this experiment anew; may be given several times"
    )
    parser.add_argument(
        "--draw", action="store_true", help="train nothing: pictures and page from the results that are there"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one seed, a hundredth of the steps: shows that all of it runs"
    )
    return parser


if __name__ == "__main__":
    main()
