"""Loss of retrieval by smaller vectors: the first dimensions alone, bytes, bits."""

from __future__ import annotations

import numpy as np

from headlight_model.evaluate.ranking import Floats

LEVELS = 255  # steps of a byte


def truncated(vectors: Floats, width: int) -> Floats:
    """The first dimensions, of unit length again."""
    kept = vectors[:, :width]
    shorter: Floats = kept / np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), 1e-12)
    return shorter


def as_bytes(vectors: Floats, low: Floats, high: Floats) -> Floats:
    """Each dimension rounded to one of 256 levels between two bounds.

    The bounds come from other vectors.
    """
    step = np.maximum(high - low, 1e-12) / LEVELS
    rounded: Floats = np.clip(np.round((vectors - low) / step), 0, LEVELS) * step + low
    return rounded


def as_bits(vectors: Floats) -> Floats:
    """The sign of each dimension: products are the dimensions less twice the Hamming distance."""
    return np.where(vectors > 0, 1.0, -1.0)


def compressed(queries: Floats, documents: Floats, widths: tuple[int, ...]) -> dict[str, Floats]:
    """Scores [Q, C] by the form of the vectors.

    The bounds of the bytes are those of the documents.
    """
    scores = {
        f"{width} dimensions": truncated(queries, width) @ truncated(documents, width).T
        for width in widths
    }
    bounds = documents.min(axis=0), documents.max(axis=0)
    scores["int8"] = as_bytes(queries, *bounds) @ as_bytes(documents, *bounds).T
    scores["binary"] = as_bits(queries) @ as_bits(documents).T
    return scores
