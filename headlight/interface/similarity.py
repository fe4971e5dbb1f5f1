"""Similarity of vectors, by the measure that a model names."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.errors import InvalidInput, Reason

TINIEST = np.float32(1e-12)  # length of a shorter vector, as in PyTorch: zeros stay zeros


def similarity(measure: str | None, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
    """Compare each vector with each.

    Args:
        measure: "cosine", "dot", or the distances "euclidean" and "manhattan", which become
            negative; None: cosine.
        a: floats [N, D], or [D] for one vector.
        b: floats [M, D] or [D].

    Returns:
        float32 [N, M].

    Raises:
        InvalidInput: they are no vectors of floats, or have different widths.
    """
    one, other = _vectors("a", a), _vectors("b", b)
    if one.shape[1] != other.shape[1]:
        raise InvalidInput("b", Reason.WIDTHS_DIFFER, width=other.shape[1], other=one.shape[1])
    if measure in ("euclidean", "manhattan"):
        order = 2 if measure == "euclidean" else 1
        rows = [-np.linalg.norm(other - row, order, axis=1) for row in one]
        return np.array(rows, np.float32).reshape(len(one), len(other))
    if measure != "dot":
        one, other = _unit(one), _unit(other)
    return one @ other.T


def _vectors(name: str, given: ArrayLike) -> NDArray[np.float32]:
    """Return vectors as float32 [N, D]. Raises InvalidInput."""
    try:
        vectors = np.asarray(given)
    except ValueError:  # rows of different lengths
        vectors = np.empty(0, object)
    if vectors.dtype.kind != "f" or vectors.ndim not in (1, 2):
        raise InvalidInput(name, Reason.NOT_VECTORS, dtype=str(vectors.dtype), axes=vectors.ndim)
    return np.atleast_2d(vectors).astype(np.float32, copy=False)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = vectors / np.maximum(
        np.linalg.norm(vectors, axis=1, keepdims=True), TINIEST
    )
    return scaled
