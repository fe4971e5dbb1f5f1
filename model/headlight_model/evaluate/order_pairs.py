"""Accuracy on pairs of answers with the same words, of which one is in the right order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from headlight_model.evaluate.ranking import DIGITS, Floats
from headlight_model.train.data.order import Triplet, questions

Vectors = Callable[[list[str]], Floats]  # [N, D] of unit length


@dataclasses.dataclass(frozen=True)
class OrderPairs:
    """Shares of right choices; a tie counts half."""

    questions: int
    all: float
    trained: float  # of templates that training saw, with other words
    kept_back: float  # of templates that it never saw
    by_family: dict[str, float]


def measure(vectors: Vectors) -> OrderPairs:
    """Measure how often a model prefers the right answer."""
    triplets = list(questions())
    question, right, wrong = (
        vectors([getattr(each, name) for each in triplets])
        for name in ("question", "right", "wrong")
    )
    gain = np.round(((right - wrong) * question).sum(axis=1), DIGITS)
    chosen = (np.sign(gain) + 1) / 2  # [N]: 1 right, 0 wrong, 0.5 undecided

    def share(chosen_by: Callable[[Triplet], bool]) -> float:
        return float(chosen[[chosen_by(each) for each in triplets]].mean())

    def of_family(name: str) -> float:
        return share(lambda each: each.family == name)

    families = dict.fromkeys(each.family for each in triplets)
    return OrderPairs(
        len(triplets),
        float(chosen.mean()),
        share(lambda each: each.trained),
        share(lambda each: not each.trained),
        {name: of_family(name) for name in families},
    )
