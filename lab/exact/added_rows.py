"""Properties of the table of vectors that a scheme adds to the embeddings."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headlight_model.encoder import Encoder

ROWS = 4096  # positions
LINEAR_SHIFTS = (1, 7, 100, 1000)  # positions
AT_ONCE = 512  # rows


def added(encoder: Encoder) -> Tensor:
    """Return what the scheme adds at each position: float64 [ROWS, D]."""
    none, scheme = torch.zeros(1, ROWS, encoder.config.dim), encoder.positions
    return scheme.embed(none, scheme.prepare(torch.arange(ROWS)[None]))[0].double()


def unlike_linear(table: Tensor) -> Tensor:
    """Return the distance of PE(p + k) from M PE(p) over all p, for the better of two M: by k.

    The two are the rotation of each pair by the angle of PE(k), and the linear map of least
    squares.
    """
    worst = []
    for k in LINEAR_SHIFTS:
        before, after = table[:-k], table[k:]
        tried = (turned(before, table[k]), before @ torch.linalg.lstsq(before, after).solution)
        worst.append(min(float((each - after).abs().max()) for each in tried))
    return torch.tensor(worst)


def turned(rows: Tensor, by: Tensor) -> Tensor:
    """Rotate the pairs (sin a, cos a) of rows [P, D].

    The angle is that of the same pair of `by` [D]: a linear map of the rows.
    """
    sine, cosine, s, c = rows[:, 0::2], rows[:, 1::2], by[0::2], by[1::2]
    return torch.stack((sine * c + cosine * s, cosine * c - sine * s), dim=-1).flatten(1)


def beyond_one(table: Tensor) -> Tensor:
    """Return by how much the greatest absolute value exceeds 1: [1]."""
    return (table.abs().max() - 1).clamp_min(0).reshape(1)


def closest(table: Tensor) -> Tensor:
    """Return the Euclidean distance of the two most similar rows: [1]."""
    least = math.inf
    for begin in range(0, len(table), AT_ONCE):
        some = table[begin : begin + AT_ONCE]
        # By differences: the other way multiplies matrices, and equal rows come out apart.
        apart = torch.cdist(some, table, compute_mode="donot_use_mm_for_euclid_dist")
        apart[torch.arange(len(some)), begin + torch.arange(len(some))] = math.inf
        least = min(least, float(apart.min()))
    return torch.tensor([least])
