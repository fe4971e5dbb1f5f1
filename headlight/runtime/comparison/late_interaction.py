"""Late interaction: each token of the query is matched with one token of the passage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.values import Floats, Ids

BLOCK = 1 << 20  # cosines at once: 4 MiB


class Matches(NamedTuple):
    """The token of the passage that each token of the query matches best.

    Attributes:
        rows: int64 [q], rows of the passage's vectors; empty if the passage has none.
        cosines: float32, as long.
    """

    rows: Ids
    cosines: Floats


def token_cosines(query: Floats, passage: Floats) -> Floats:
    """Return the cosine of each token vector with each: float32 [q, p].

    Args:
        query: float32 [q, D], of unit length.
        passage: float32 [p, D], of unit length.
    """
    return query @ passage.T


def matches(cosines: Floats) -> Matches:
    """Return the largest cosine of each row of [q, p]; of equal ones the first."""
    if not cosines.size:
        return Matches(np.zeros(0, np.int64), np.zeros(0, np.float32))
    rows = cosines.argmax(axis=1)
    return Matches(rows, np.take_along_axis(cosines, rows[:, None], axis=1)[:, 0])


def best_matches(query: Floats, passage: Floats) -> Matches:
    """Return `matches` of all cosines, of which at most BLOCK, or those of a row, are held."""
    step = max(1, BLOCK // max(1, len(passage)))
    blocks = [
        matches(token_cosines(query[at : at + step], passage))
        for at in range(0, max(1, len(query)), step)
    ]
    return Matches(*map(np.concatenate, zip(*blocks, strict=True)))


def max_sim(query: Floats, passage: Floats) -> float:
    """Return the sum over the query's vectors of the largest product with one of the passage's.

    0 if one side has none. Khattab & Zaharia 2020, equation 3.
    """
    return float(best_matches(query, passage).cosines.sum(dtype=np.float64))


def max_sim_mean(matched: Matches) -> float:
    """Return the mean of the largest cosines; 0 if there are none."""
    return float(matched.cosines.mean(dtype=np.float64)) if len(matched.cosines) else 0.0


def token_parts(matched: Matches, count: int) -> NDArray[np.float64]:
    """Return the part of the sum of cosines that comes from each of `count` tokens: [count]."""
    parts = np.bincount(matched.rows, matched.cosines, minlength=count)
    return parts.astype(np.float64)
