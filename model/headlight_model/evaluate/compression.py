"""Retrieval with compressed vectors: the first dimensions only, bytes, bits."""

from __future__ import annotations

import numpy as np

from headlight_model.evaluate.ranking import Floats

LEVELS = 255  # steps between the 256 values of a byte


def truncated(vectors: Floats, width: int) -> Floats:
    """Return the first `width` dimensions, scaled to unit length again."""
    kept = vectors[:, :width]
    shorter: Floats = kept / np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), 1e-12)
    return shorter


def as_bytes(vectors: Floats, low: Floats, high: Floats) -> Floats:
    """Round each dimension to one of 256 levels between `low` and `high`."""
    step = np.maximum(high - low, 1e-12) / LEVELS
    rounded: Floats = np.clip(np.round((vectors - low) / step), 0, LEVELS) * step + low
    return rounded


def as_bits(vectors: Floats) -> Floats:
    """Return the sign of each dimension, 1 or -1.

    A product is the number of dimensions minus twice the Hamming distance.
    """
    return np.where(vectors > 0, 1.0, -1.0)


def compressed(queries: Floats, documents: Floats, widths: tuple[int, ...]) -> dict[str, Floats]:
    """Return scores [Q, C] by form of the vectors.

    The byte bounds are the minimum and maximum of the documents.
    """
    scores = {
        f"{width} dimensions": truncated(queries, width) @ truncated(documents, width).T
        for width in widths
    }
    bounds = documents.min(axis=0), documents.max(axis=0)
    scores["int8"] = as_bytes(queries, *bounds) @ as_bytes(documents, *bounds).T
    scores["binary"] = as_bits(queries) @ as_bits(documents).T
    return scores
