"""The reading side of packed weights, as headlight/web/packed.js has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def integers(data: bytes) -> Iterator[int]:
    """Yield the integers of LEB128."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def unpacked(
    data: bytes, sizes: Sequence[int], steps: int, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the weights, with 0 for those that are missing."""
    heads = np.zeros((len(sizes), shape[-1] ** 2))
    start = 0
    for head, size in zip(heads, sizes, strict=True):
        place = -1
        numbers = integers(data[start : start + size])
        for gap, level in zip(numbers, numbers, strict=True):
            place += gap
            head[place] = level / steps
        start += size
    assert start == len(data)
    return heads.reshape(shape)
