"""Command `python -m lab`: train, measure, draw, and write the page.

`nox -s lab` calls it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import torch

from lab import tasks
from lab.exact import claims, properties
from lab.experiments import extrapolation, head_cost, reading_cost, scaling, variants
from lab.experiments.reversal import LENGTH
from lab.page.page import write
from lab.pictures import attention, encodings, measured, pruning
from lab.plans import Training
from lab.results import load, save
from lab.runner import EXPERIMENTS, all_jobs, comparisons, run_all
from lab.summary import lines
from lab.training import held_out

DOCS, CHECKPOINTS, QUICK = Path("docs"), Path("build/lab"), Path("build/lab-quick")
SEEDS = 3


def main() -> None:
    """Run the lab, or the parts that the options select."""
    options = _parser().parse_args()
    if options.experiment:
        print("\n".join(one(options.experiment, quick=options.quick, again=options.again)))
        return
    root = QUICK if options.quick else DOCS
    out = root / "positions"
    numbers = load(out) if options.draw else measure(options)
    save(numbers | unmodelled(quick=numbers["about"]["quick"]), out)
    results = load(out)  # plots and page use the rounded values of the file
    pictures = encodings.draw(out)
    for part in (measured, attention, pruning):
        pictures += part.draw(results, out)
    for path in (*pictures, write(results, root / "positions.md", out)):
        print(f"wrote {path}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return all results that need a model."""
    seeds = range(1 if options.quick else SEEDS)
    jobs = all_jobs(list(EXPERIMENTS), seeds, quick=options.quick)
    return {
        **run_all(jobs, QUICK if options.quick else CHECKPOINTS, again=options.again),
        "properties": [dataclasses.asdict(row) for row in properties.measure()],
        "head_cost": head_cost.measure(quick=options.quick),
        "reading_cost": reading_cost.measure(quick=options.quick),
        "about": {
            "seeds": list(seeds),
            "quick": options.quick,
            "machine": f"{len(os.sched_getaffinity(0))} cores ({platform.machine()})",
            "versions": (
                f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}"
            ),
        },
    }


def one(comparison: str, *, quick: bool, again: bool) -> list[str]:
    """Train one comparison with one seed, and return its figures. The page stays as it is."""
    jobs = [
        job
        for job in all_jobs(list(EXPERIMENTS), range(1), quick=quick)
        if comparison in job[1].comparisons
    ]
    return lines(run_all(jobs, QUICK if quick else CHECKPOINTS, again=again))


def unmodelled(*, quick: bool) -> dict[str, Any]:
    """Return the results that need no trained model: claims, baselines, and numbers of questions.

    They are the same in every run.

    Returns:
        `claims`, see `claims.measure`; `baselines` of reversal; `floors` by length, of
        extrapolation; `asked` by experiment and length.
    """
    one = {
        (name, job.task): job for name, job in all_jobs(list(EXPERIMENTS), range(1), quick=quick)
    }  # every seed is asked the same questions
    return {
        "claims": claims.measure(),
        "baselines": tasks.baselines(held_out(one["reversal", "reverse"], LENGTH)),
        "floors": {str(length): extrapolation.floors(length) for length in extrapolation.LENGTHS},
        "asked": {
            "extrapolation": _asked(extrapolation, one["extrapolation", "recall"]),
            "scaling": _asked(scaling, one["scaling", "recall"]),
            "variants": _asked(variants, one["variants", "recall"]),
        },
    }


def _asked(experiment: Any, training: Training) -> dict[str, dict[str, int]]:
    return {
        str(length): experiment.question_count(training, length) for length in experiment.LENGTHS
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description=(
            f"Trains into {CHECKPOINTS}; writes {DOCS}/positions.md, and what it is made of "
            "beside it."
        ),
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
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--experiment",
        choices=comparisons(),
        help="train one comparison with one seed, in minutes, and print its figures",
    )
    part.add_argument(
        "--draw",
        action="store_true",
        help=(
            "train nothing: pictures and page from the results that are there, with what takes no "
            "model counted anew"
        ),
    )
    return parser


if __name__ == "__main__":
    main()
