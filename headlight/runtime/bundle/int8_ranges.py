"""Ranges of int8 in a bundle: the least and largest value of each dimension."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from headlight.errors import BundleError
from headlight.runtime.bundle.file_contents import File, plain_arrays
from headlight.runtime.values import Floats

RANGE_NAME = re.compile(r"int8_([1-9][0-9]{0,6})")
LARGEST_END = 1e30  # of a range: differences and quotients stay finite


def load_ranges(file: File | Path, pooled_dim: int) -> dict[int, Floats]:
    """Return a bundle's int8 ranges, by width: float32 [2, width].

    Args:
        file: an .npz with `int8_d` for each width d.
        pooled_dim: the largest width.

    Raises:
        BundleError: the file holds something else.
    """
    ranges, name = dict[int, Floats](), file.name
    for key, array in plain_arrays(file.read_bytes(), name).items():
        match = RANGE_NAME.fullmatch(key)
        width = int(match[1]) if match else 0
        if not 1 <= width <= pooled_dim:
            raise BundleError(
                f"holds {key!a:.60}; expected int8_d of a width d up to {pooled_dim}", name
            )
        if array.dtype != np.float32 or array.shape != (2, width):
            raise BundleError(
                f"{key} is {array.dtype} in the shape {array.shape}; expected float32 [2, {width}]",
                name,
            )
        if not (
            np.isfinite(array).all()
            and (np.abs(array) < LARGEST_END).all()
            and (array[0] <= array[1]).all()
        ):
            raise BundleError(
                f"{key} has a range that ends before it begins, or is not finite and small", name
            )
        ranges[width] = array
    return ranges
