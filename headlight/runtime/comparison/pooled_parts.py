"""Parts of a pooled vector's similarity: of units as vectors, and of each token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headlight.interface.similarity import TINIEST, similarity
from headlight.outputs.vector_forms import unit_length
from headlight.runtime.values import Floats


def unit_similarities(measure: str, vector: Floats, units: Floats, *, normalize: bool) -> Floats:
    """Return the similarity of one text's vector with each span vector: float32 [units].

    Args:
        measure: see `headlight.interface.similarity`.
        vector: float32 [D], the pooled vector of the other text.
        units: float32 [units, D], means behind the layers that follow pooling.
        normalize: whether the model's vectors have unit length.
    """
    if not len(units):
        return np.zeros(0, np.float32)
    vectors = unit_length(units) if normalize else units
    similarities: Floats = similarity(measure, vector, vectors)[0]
    return similarities


def mean_direction(vectors: Floats) -> NDArray[np.float64] | None:
    """Return the mean direction of some vectors, float64 [D], of length 1; None: of a single one.

    Args:
        vectors: float32 [m, D].
    """
    if len(vectors) == 1:
        return None
    mean = unit_length(vectors).astype(np.float64).mean(axis=0)
    direction: NDArray[np.float64] = mean / _length(mean)
    return direction


def token_contributions(
    measure: str,
    vector: Floats,
    rows: Floats,
    left_out: int,
    *,
    normalize: bool,
    without: NDArray[np.float64] | None = None,
) -> Floats:
    """Return the part of a similarity that comes from each token of one text: float32 [n].

    With q the vector of the other text, d the mean of the n pooled rows t, cosine is

        q · d / (|q| |d|) = sum over j of q · t_j / (n |q| |d|),

    and dot leaves out |q|, and |d| unless vectors have unit length. Rows are taken behind the Dense
    layers: these map a mean to the mean of what they map, so each token has an equal share of
    their bias.

    Args:
        measure: "cosine" or "dot".
        vector: float32 [D], q.
        rows: float32 [n, D], of every token of the text.
        left_out: the number of its first tokens that pooling leaves out: their part is 0.
        normalize: whether the model's vectors have unit length.
        without: float64 [D], a direction of length 1: leave out the part of q along it.
    """
    other, pooled = vector.astype(np.float64), rows[left_out:].astype(np.float64)
    scale = float(len(pooled))
    if measure == "cosine":
        scale *= _length(other)
    if measure == "cosine" or normalize:
        scale *= _length(pooled.mean(axis=0))
    if without is not None:
        other = other - (other @ without) * without
    parts = np.zeros(len(rows), np.float32)
    parts[left_out:] = pooled @ other / scale
    return parts


def pair_contributions(
    measure: str, query: Floats, passage: Floats, left_out: tuple[int, int], *, normalize: bool
) -> Floats:
    """Return the part of a similarity that comes from each pair of tokens: float32 [Q, P].

    It is `token_contributions` with the query's vector written as the mean of its m rows s:

        q · d / (|q| |d|) = sum over i and j of s_i · t_j / (m n |q| |d|).

    All cells sum to the similarity.

    Args:
        measure: "cosine" or "dot".
        query, passage: float32 [Q, D], [P, D], of every token, behind the Dense layers.
        left_out: the first tokens of each that pooling leaves out: their cells are 0.
        normalize: whether the model's vectors have unit length.
    """
    parts = np.zeros((len(query), len(passage)), np.float32)
    sides = []
    for rows, first in zip((query, passage), left_out, strict=True):
        pooled = rows[first:].astype(np.float64)
        scale = float(len(pooled))
        if measure == "cosine" or normalize:
            scale *= _length(pooled.mean(axis=0))
        sides.append((pooled / scale).astype(np.float32))
    np.matmul(sides[0], sides[1].T, out=parts[left_out[0] :, left_out[1] :])
    return parts


def _length(vector: NDArray[np.float64]) -> float:
    return max(float(np.linalg.norm(vector)), float(TINIEST))
