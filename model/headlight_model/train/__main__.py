"""The command `python -m headlight_model.train`.

`--positions rope --out model/headlight_model/checkpoints/docs-rope` trains the shipped model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.loop import Job, train
from headlight_model.train.recipe import QUICK, Recipe
from headlight_model.train.teacher import TEACHER, BundleTeacher


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, train, print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m headlight_model.train", description="Train one model."
    )
    parser.add_argument(
        "--positions", choices=sorted(POSITIONS), required=True, help="how the model knows order"
    )
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument(
        "--state", type=Path, help="folder of the state to resume; default: build/train/NAME"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--stage",
        type=int,
        default=0,
        help="last stage to run, counted from 1; default: all stages",
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        default=TEACHER,
        help="bundle that a recipe with a teacher learns from; default: %(default)s",
    )
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch decides")
    parser.add_argument("--resume", action="store_true", help="continue from --state")
    parser.add_argument(
        "--quick", action="store_true", help="a tiny model and a few steps, to test the training"
    )
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    recipe = QUICK if options.quick else Recipe()
    try:
        teacher = BundleTeacher(options.teacher) if recipe.taught else None
    except FileNotFoundError as error:
        parser.error(str(error))
    job = Job(
        positions=options.positions,
        out=options.out,
        recipe=recipe,
        seed=options.seed,
        resume=options.resume,
        stage=options.stage,
        state=options.state,
        teacher=teacher,
    )
    print(json.dumps(train(job)["validation"], indent=2))


if __name__ == "__main__":
    main()
