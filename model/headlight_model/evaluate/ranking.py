"""Ranks from scores, and retrieval metrics with their uncertainty."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

CUTOFF = 10  # a right answer below this rank counts nothing
DIGITS = 6  # scores closer than this are equal: the same text in another batch differs by rounding
RESAMPLES = 10_000

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def ranks(
    scores: Floats, answers: Sequence[int], also: Sequence[Collection[int]] = ()
) -> NDArray[np.int64]:
    """Return the rank of the best right answer to each question; 1 is best.

    Among equal scores the right answer comes last.

    Args:
        scores: [Q, C] of each candidate for each question.
        asked: the right candidate of each question.
        also: by question, all candidates that are right; empty: none but that of `asked`.
    """
    rounded = np.round(scores, DIGITS)
    if not also:
        right = rounded[np.arange(len(answers)), list(answers)]
        found_at: NDArray[np.int64] = (rounded >= right[:, None]).sum(axis=1)
        return found_at
    best = []
    for row, accepted in zip(rounded, also, strict=True):
        places = list(accepted)
        wrong = np.delete(row, places)
        best.append(1 + int((wrong >= row[places].max()).sum()))
    return np.array(best, dtype=np.int64)


def reciprocal_ranks(of_questions: NDArray[np.int64]) -> Floats:
    """Return 1 / rank, or 0 beyond CUTOFF: [Q]. The mean is MRR@10."""
    return np.where(of_questions <= CUTOFF, 1 / of_questions, 0.0)


def hits(of_questions: NDArray[np.int64]) -> Floats:
    """Return 1 if the rank is within CUTOFF, else 0: [Q]. The mean is Recall@10."""
    return (of_questions <= CUTOFF).astype(np.float64)


def bootstrap(differences: Floats, groups: Sequence[str] | None = None, seed: int = 0) -> Interval:
    """Return the mean of paired differences and its percentile interval.

    After Efron and Tibshirani 1993, ch. 13.

    Args:
        differences: [Q], of two contestants for each question.
        groups: the group of each question. Whole groups are resampled, because questions of one
            module are alike. None: each question by itself.
    """
    names = list(groups) if groups is not None else [str(row) for row in range(len(differences))]
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    rows = np.array([number[name] for name in names])
    sums, counts = np.bincount(rows, weights=differences), np.bincount(rows)
    random = np.random.default_rng(seed)
    # [R, G]
    drawn = random.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=RESAMPLES)
    low, high = np.percentile((drawn @ sums) / (drawn @ counts), [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high))


def standardised(scores: Floats) -> Floats:
    """Scale each row of [Q, C] to mean 0 and deviation 1; zeros if all its scores are equal."""
    deviation = scores.std(axis=1, keepdims=True)
    scaled: Floats = (scores - scores.mean(axis=1, keepdims=True)) / np.where(
        deviation > 0, deviation, 1.0
    )
    return scaled


def fuse(first: Floats, second: Floats, weight: float) -> Floats:
    """Return the weighted sum of standardised scores [Q, C].

    `weight`, 0 to 1, is that of the first.
    """
    return weight * standardised(first) + (1 - weight) * standardised(second)


def best_weight(first: Floats, second: Floats, answers: Sequence[int]) -> float:
    """Return the weight, in steps of 0.05, at which `fuse` has the highest MRR@10.

    Of equal ones the smallest.
    """
    weights = [step / 20 for step in range(21)]
    means = [
        float(reciprocal_ranks(ranks(fuse(first, second, weight), answers)).mean())
        for weight in weights
    ]
    return weights[int(np.argmax(means))]
