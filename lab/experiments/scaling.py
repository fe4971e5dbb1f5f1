"""Rotary positions scaled to four times the training length.

Measured as scaled, and after a little more training there.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.positions.rope import RopeScaling
from lab.experiments import extrapolation
from lab.experiments.extrapolation import questions
from lab.plans import Training
from lab.tasks import IGNORED, Examples
from lab.training import (
    Step,
    few_keys,
    name_all,
    save,
    take_steps,
    trained,
)

TRAINED = (32, 64)
FACTOR = 4
LENGTHS = (64, 128, 256)
THETAS = (100.0, 10000.0)
KINDS = ("none", "linear", "ntk", "yarn")
MORE = Training(task="recall", scheme="rope", seed=0, steps=100, lengths=(128, 256), batch=16)


def trainings(seeds: range) -> list[Training]:
    """Return the trainings of this experiment."""
    return [
        Training(
            task="recall",
            scheme="rope",
            seed=seed,
            steps=4000,
            lengths=TRAINED,
            batch=32,
            rope_theta=theta,
            comparisons=("scaling",),
        )
        for theta in THETAS
        for seed in seeds
    ]


def more_steps(training: Training) -> int:
    """Return the steps after each scaling: a fortieth of the training's."""
    return max(1, training.steps // 40)


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as in `training.trained`.

    The training after scaling is always repeated; its checkpoint is saved too.

    Returns:
        For each kind of scaling, `zero_shot` and `tuned`. Each has, by length, the accuracy of
        either question and of "far", which is recall over more places than in the training.
    """
    encoder, _ = trained(training, checkpoints, step, again=again)
    result: dict[str, object] = {}
    for kind in KINDS:
        longer = stretched(encoder, kind)
        zero_shot = by_length(longer, training)
        further = dataclasses.replace(MORE, seed=training.seed, steps=more_steps(training))
        take_steps(longer, further, step)
        save(longer, training, checkpoints, f"{training.name}-{kind}")
        result[kind] = {"zero_shot": zero_shot, "tuned": by_length(longer, training)}
    return result


def stretched(encoder: Encoder, kind: str) -> Encoder:
    """Return a copy of an encoder with scaled rotary positions."""
    scaling = (
        None if kind == "none" else RopeScaling(kind=kind, factor=FACTOR, trained_length=TRAINED[1])
    )
    copy = Encoder(dataclasses.replace(encoder.config, rope_scaling=scaling))
    copy.load_state_dict(encoder.state_dict())
    return copy.eval()


def by_length(encoder: Encoder, training: Training) -> dict[str, dict[str, float]]:
    """Return the accuracies at each length."""
    result = {}
    for length in LENGTHS:
        result[str(length)] = questions(encoder, training, length)
        if length > TRAINED[1]:
            result[str(length)]["far"] = far(encoder, few_keys(training, length))
    return result


def far(encoder: Encoder, examples: Examples) -> float:
    """Return the accuracy of recall if the answer is further away than any in the training."""
    right = name_all(encoder, examples.ids) == examples.targets["recall"]
    return float(right[distant(examples)].float().mean())


def distant(examples: Examples) -> Tensor:
    """Return which tokens ask for an answer that far away: bool [B, S]."""
    assert examples.away is not None  # set by "recall"
    return (examples.targets["recall"] != IGNORED) & (examples.away > TRAINED[1])


def question_count(training: Training, length: int) -> dict[str, int]:
    """Return how many questions of each kind are asked at a length.

    They are the same for every scaling and seed.
    """
    return extrapolation.question_count(training, length) | {
        "far": int(distant(few_keys(training, length)).sum())
    }
