"""`python -m model.lab`: train, measure, draw, and write the page. `make lab` calls it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import torch

from model.lab import properties, tasks
from model.lab.page import write
from model.lab.pictures import attention, encodings, measured
from model.lab.results import load, save
from model.lab.reversal import LENGTH
from model.lab.runner import EXPERIMENTS, all_jobs, run_all
from model.lab.training import held_out

DOCS, CHECKPOINTS, QUICK = Path("docs"), Path("build/lab"), Path("build/lab-quick")
SEEDS = 3


def main() -> None:
    """Everything, or what the options leave of it."""
    options = _parser().parse_args()
    root = QUICK if options.quick else DOCS
    out = root / "positions"
    save(load(out) if options.draw else measure(options), out)
    results = load(out)  # what is drawn and quoted is what the file says, to its last digit
    pictures = [*encodings.draw(out), *measured.draw(results, out), *attention.draw(results, out)]
    for path in (*pictures, write(results, root / "positions.md", out)):
        print(f"wrote {path}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All results."""
    seeds = range(1 if options.quick else SEEDS)
    jobs = all_jobs(list(EXPERIMENTS), seeds, quick=options.quick)
    return {
        **run_all(jobs, QUICK if options.quick else CHECKPOINTS, again=options.again),
        "baselines": tasks.baselines(held_out(next(job for _, job in jobs if job.task == "reverse"), LENGTH)),
        "properties": [dataclasses.asdict(row) for row in properties.measure()],
        "about": {
            "seeds": list(seeds),
            "quick": options.quick,
            "machine": f"{len(os.sched_getaffinity(0))} cores ({platform.machine()})",
            "versions": f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}",
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model.lab",
        description=f"Trains into {CHECKPOINTS}; writes {DOCS}/positions.md, and what it is made of beside it.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"one seed, a hundredth of the steps: shows that all of it runs; all into {QUICK}",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help=f"train only what {CHECKPOINTS} lacks, and what is stretched; measure all of it anew",
    )
    parser.add_argument(
        "--draw", action="store_true", help="train nothing: pictures and page from the results that are there"
    )
    return parser


if __name__ == "__main__":
    main()
