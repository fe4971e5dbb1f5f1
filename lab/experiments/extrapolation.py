"""Length extrapolation: trained on short sequences, tested on long ones.

Two questions are asked: the left neighbour (local), and what followed the same key earlier
(induction).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional

from headlight_model.encoder import Encoder
from lab.plans import Training
from lab.tasks import IGNORED, TASKS, Examples, floor, keys_of
from lab.training import (
    SCHEMES,
    Step,
    accuracy,
    at_lengths,
    few_keys,
    held_out,
    name_all,
    trained,
)

TRAINED = (16, 32)
LENGTHS = (32, 64, 128, 512)  # 1, 2, 4 and 16 times the longest of the training
FLOOR_SEED = 0xF1004
# "recall" questions per length for the floor; a model is asked as few as 256.
FLOOR_QUESTIONS = 1 << 18
AT_ONCE = 256  # sequences


def trainings(seeds: range) -> list[Training]:
    """Return the trainings of this experiment."""
    return [
        Training(
            task="recall",
            scheme=scheme,
            seed=seed,
            steps=4000,
            lengths=TRAINED,
            comparisons=("recall",),
        )
        for scheme in SCHEMES
        for seed in seeds
    ]


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as in `training.trained`.

    Returns:
        `accuracy`: by length, the result of `questions`, or the error message if the encoder
            rejects the length.
        `mirrored`: the result of `mirrored` at the longest length of the training.
    """
    encoder, _ = trained(training, checkpoints, step, again=again)
    return {
        "accuracy": at_lengths(lambda length: questions(encoder, training, length), LENGTHS),
        "mirrored": mirrored(encoder, held_out(training, TRAINED[1])),
    }


def floors(length: int) -> dict[str, float]:
    """Return the accuracy on both questions without positions, see `tasks.floor`.

    A mean over many draws: the few questions that models are asked at 512 tokens would give 7.8 %,
    which is 2 standard errors too much.
    """
    random = torch.Generator().manual_seed(FLOOR_SEED)
    # As many keys as in `few_keys`.
    make, keys = TASKS["recall"].make, min(keys_of(length), keys_of(TRAINED[1]))
    draws = FLOOR_QUESTIONS // (AT_ONCE * keys)
    left = [floor(make(AT_ONCE, length, random), "left") for _ in range(draws)]
    recall = [floor(make(AT_ONCE, length, random, keys=keys), "recall") for _ in range(draws)]
    return {"left": sum(left) / draws, "recall": sum(recall) / draws}


def question_count(training: Training, length: int) -> dict[str, int]:
    """Return how many questions of each kind are asked at a length.

    They are the same for every scheme and seed.
    """
    dense, few = held_out(training, length), few_keys(training, length)
    return {
        name: int((made.targets[name] != IGNORED).sum())
        for name, made in (("left", dense), ("recall", few))
    }


def questions(encoder: Encoder, training: Training, length: int) -> dict[str, float]:
    """Return the accuracy of each question.

    Returns:
        "left": on sequences with the same share of keys as in training, as far as there are keys.
        "recall": on sequences with as many keys as in training, so that the choice stays the same.
        "left, few keys": on the same sequences as "recall".
    """
    few = accuracy(encoder, few_keys(training, length))
    dense = accuracy(encoder, held_out(training, length))
    return {"left": dense["left"], "recall": few["recall"], "left, few keys": few["left"]}


def mirrored(encoder: Encoder, examples: Examples) -> float:
    """Return the share of questions for the left neighbour answered with the right neighbour."""
    right = functional.pad(examples.ids[:, 1:], (0, 1), value=IGNORED)
    counted = (examples.targets["left"] != IGNORED) & (right != IGNORED)
    return float((name_all(encoder, examples.ids) == right)[counted].float().mean())
