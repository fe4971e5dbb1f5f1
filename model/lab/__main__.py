"""`python -m model.lab`: train, measure, draw, and write the page. `make lab` calls it."""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from model.lab import tasks
from model.lab.results import load, save
from model.lab.reversal import LENGTH
from model.lab.runner import EXPERIMENTS, all_jobs, run_all


def main() -> None:
    """Run all experiments, or some of them, whose results then replace the earlier ones."""
    options = _parser().parse_args()
    began = time.monotonic()
    results = load(options.out) if options.only else {}
    seeds = range(1 if options.quick else options.seeds)
    jobs = all_jobs(options.only or list(EXPERIMENTS), seeds, quick=options.quick)
    results |= {"baselines": tasks.baselines(LENGTH), **run_all(jobs, options.checkpoints)}
    results["about"] = about(seeds, (time.monotonic() - began) / 60, quick=options.quick)
    print(f"wrote {save(results, options.out)}")


def about(seeds: range, minutes: float, *, quick: bool) -> dict[str, Any]:
    """What the results were made with."""
    return {
        "seeds": list(seeds),
        "quick": quick,
        "minutes": round(minutes, 1),
        "machine": f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}",
        "versions": f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}",
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model.lab", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json and the pictures")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder for a checkpoint of each training")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind; default 3")
    parser.add_argument(
        "--only", action="append", choices=list(EXPERIMENTS), help="this experiment; may be given several times"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one seed, a hundredth of the steps: shows that all of it runs"
    )
    return parser


if __name__ == "__main__":
    main()
