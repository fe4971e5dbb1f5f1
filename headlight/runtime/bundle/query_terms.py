"""Weights of the terms of queries, of a sparse encoder that computes those of documents alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headlight.errors import BundleError
from headlight.runtime.bundle.file_contents import File, plain_arrays
from headlight.runtime.values import Floats


def load_query_terms(file: File | Path, vocabulary: int) -> Floats:
    """Return the weight of each term, float32 [vocabulary]: finite, 0 or more.

    Args:
        file: an .npz with `weights`.
        vocabulary: number of terms.

    Raises:
        BundleError: the file holds something else.
    """
    arrays = plain_arrays(file.read_bytes(), file.name)
    weights = arrays.get("weights", np.zeros(0))
    right = weights.dtype == np.float32 and weights.shape == (vocabulary,) and len(arrays) == 1
    if not right or not (np.isfinite(weights) & (weights >= 0)).all():
        raise BundleError(
            f"does not hold weights, float32 [{vocabulary}] of numbers from 0", file.name
        )
    return weights
