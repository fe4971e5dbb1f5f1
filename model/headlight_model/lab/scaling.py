"""Rotary positions stretched to four times the length of the training.

As they are, and after a little more training there.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.lab import extrapolation
from headlight_model.lab.extrapolation import questions
from headlight_model.lab.tasks import IGNORED, Examples
from headlight_model.lab.training import (
    Step,
    Training,
    few_keys,
    name_all,
    save,
    take_steps,
    trained,
)
from headlight_model.positions.rope import RopeScaling

TRAINED = (32, 64)
FACTOR = 4
LENGTHS = (64, 128, 256)
THETAS = (100.0, 10000.0)
KINDS = ("none", "linear", "ntk", "yarn")
MORE = Training(task="recall", scheme="rope", seed=0, steps=100, lengths=(128, 256), batch=16)


def trainings(seeds: range) -> list[Training]:
    """What is to be trained."""
    return [
        Training(
            task="recall",
            scheme="rope",
            seed=seed,
            steps=4000,
            lengths=TRAINED,
            batch=32,
            rope_theta=theta,
        )
        for theta in THETAS
        for seed in seeds
    ]


def more_steps(training: Training) -> int:
    """Steps after each stretching: a fortieth of the training's."""
    return max(1, training.steps // 40)


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as of `training.trained`.

    What was stretched is always trained further anew, and left there too.

    Returns:
        For each kind of stretching, `zero_shot` and `tuned`: for each length, the accuracy of
            either question and that of "far": recall
        over more places than the training had.
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
    """A copy of an encoder whose rotary positions are scaled."""
    scaling = (
        None if kind == "none" else RopeScaling(kind=kind, factor=FACTOR, trained_length=TRAINED[1])
    )
    copy = Encoder(dataclasses.replace(encoder.config, rope_scaling=scaling))
    copy.load_state_dict(encoder.state_dict())
    return copy.eval()


def by_length(encoder: Encoder, training: Training) -> dict[str, dict[str, float]]:
    """Accuracies at each length."""
    found = {}
    for length in LENGTHS:
        found[str(length)] = questions(encoder, training, length)
        if length > TRAINED[1]:
            found[str(length)]["far"] = far(encoder, few_keys(training, length))
    return found


def far(encoder: Encoder, examples: Examples) -> float:
    """Accuracy of recall where the answer stands further away than any did in the training."""
    right = name_all(encoder, examples.ids) == examples.targets["recall"]
    return float(right[distant(examples)].float().mean())


def distant(examples: Examples) -> Tensor:
    """Which tokens ask for something that stands so far away: bool [B, S]."""
    assert examples.away is not None  # these are of "recall"
    return (examples.targets["recall"] != IGNORED) & (examples.away > TRAINED[1])


def asked(training: Training, length: int) -> dict[str, int]:
    """How many questions of each kind are asked at a length.

    Of every stretching and seed the same ones.
    """
    return extrapolation.asked(training, length) | {
        "far": int(distant(few_keys(training, length)).sum())
    }
