"""Numbers in fewer bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.values import Floats

BLOCK = 1 << 16  # numbers converted at a time: what fits into a core's cache
NORMAL, SUBNORMAL = np.float32(2**-126), np.float32(2**-149)  # the smallest of each as float32
SMALLEST_NORMAL = np.uint32(0x38800000)  # 2^-14 as float32: below, float16 has fewer and fewer digits
REBIAS = np.uint32(0x37FFF001)  # 112 << 23, the distance of the exponents, less the half of a last digit that rounds
ONE, SIGN, SHIFT, SIGN_SHIFT = np.uint32(1), np.uint32(0x80000000), np.uint32(13), np.uint32(16)


def quantise(rows: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """float32 [..., n], none negative -> uint8 [..., n] and scales float32 [...].

    Each number is within half a scale of what it becomes. A row's largest entry is 255 scales; or fewer, where it is below 255 of
    the smallest normal number, since the scale is then rounded up to a subnormal: rounded down, the entry would not fit a byte.
    """
    largest = rows.max(axis=-1)
    scales = np.asarray(largest / np.float32(255))
    short = (scales < NORMAL) & (np.minimum(scales, NORMAL) * np.float32(255) < largest)
    scales[short] += SUBNORMAL
    steps = np.where(scales > 0, scales, np.float32(1))[..., None]
    return np.rint(rows / steps).astype(np.uint8), scales


def halve(numbers: Floats) -> NDArray[np.float16]:
    """float32 -> float16, rounded to the nearest, to even where two are as near: what `astype` gives. Infinite beyond its range.

    That takes 50 ns for each number too small to be a normal float16, ten times as long as this; in sharp attention most are.
    """
    flat = np.ascontiguousarray(numbers).reshape(-1)
    halves = np.empty(flat.shape, dtype=np.float16)
    for begin in range(0, len(flat), BLOCK):
        halves[begin : begin + BLOCK] = _halve(flat[begin : begin + BLOCK])
    return halves.reshape(numbers.shape)


def _halve(block: Floats) -> NDArray[np.float16]:
    if not np.abs(block).max(initial=0) < 65504:
        with np.errstate(over="ignore"):
            return block.astype(np.float16)
    bits = block.view(np.uint32)
    magnitudes = bits & ~SIGN
    normal = (magnitudes - REBIAS + ((magnitudes >> SHIFT) & ONE)) >> SHIFT
    # Of the steps between the smallest; larger numbers, which take `normal`, would leave 32 bits.
    small = np.rint(np.minimum(np.abs(block), np.float32(1)) * np.float32(2**24)).astype(np.uint32)
    halves = np.where(magnitudes < SMALLEST_NORMAL, small, normal) | ((bits & SIGN) >> SIGN_SHIFT)
    as_float: NDArray[np.float16] = halves.astype(np.uint16).view(np.float16)
    return as_float
