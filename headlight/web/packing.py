"""Attention weights in few bytes: all of them, or those above a floor if that is too much."""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np
from numpy.typing import NDArray

from headlight.results import Floats

Integers = NDArray[np.int64]
FINE = 65535  # steps from 0 to 1 if no weight is left out
COARSE = 5000  # steps if weights are left out: most of the rest then take one byte


@dataclasses.dataclass(frozen=True, slots=True)
class PackedWeights:
    """Weights as pairs of integers in LEB128, head by head, in the order of rows and columns.

    A pair is the distance from the place of the pair before it (from -1 in each head), and the
    weight in steps.

    Attributes:
        data: the pairs.
        sizes: bytes of each head, layer by layer.
        steps: from 0 to 1.
        floor: smaller weights are left out; 0: none is, but those that round to 0.
        left_out: their share of the sum of all weights.
    """

    data: bytes
    sizes: tuple[int, ...]
    steps: int
    floor: float
    left_out: float


def pack(weights: Floats, budget: int) -> PackedWeights:
    """Pack weights, with the smallest floor at which they have at most `budget` bytes.

    Args:
        weights: float32 [L, H, n, n], each from 0 to 1.
        budget: bytes.
    """
    # A pair has two bytes or more, which spares packing what cannot fit.
    if 2 * _count(weights, FINE, 1) <= budget:
        pairs = _Pairs.of(weights, FINE, 1)
        if pairs.fit(budget):
            return pairs.packed(FINE, 0.0, 0.0)
    floors = range(COARSE + 2)
    first = bisect.bisect_left(
        floors,
        1,
        lo=1,
        hi=COARSE + 1,
        key=lambda least: 2 * _count(weights, COARSE, least) <= budget,
    )
    pairs = _Pairs.of(weights, COARSE, first)
    least = bisect.bisect_left(
        floors, 1, lo=first, hi=COARSE + 1, key=lambda least: pairs.above(least).fit(budget)
    )
    pairs = pairs.above(least)
    rows = weights.size // weights.shape[-1]
    held = float(pairs.levels.sum()) / COARSE / rows
    return pairs.packed(COARSE, least / COARSE, max(0.0, 1 - held))  # rounding may add a little


def _count(weights: Floats, steps: int, least: int) -> int:
    """Return how many weights round to `least` steps or more."""
    return int(np.count_nonzero(weights >= np.float32((least - 0.5) / steps)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Pairs:
    """Places in [L, H, n, n], ascending, and the weights there in steps."""

    places: Integers
    levels: Integers
    heads: int  # L * H
    size: int  # n * n

    @classmethod
    def of(cls, weights: Floats, steps: int, least: int) -> _Pairs:
        places, levels = [], []
        for number, layer in enumerate(weights):
            flat = layer.ravel()
            kept = np.flatnonzero(flat >= np.float32((least - 0.5) / steps))
            places.append(kept + number * flat.size)
            levels.append(np.floor(flat[kept].astype(float) * steps + 0.5).astype(np.int64))
        count, heads = weights.shape[-1], weights.shape[0] * weights.shape[1]
        return cls(np.concatenate(places), np.concatenate(levels), heads, count * count)

    def above(self, least: int) -> _Pairs:
        kept = self.levels >= least
        return dataclasses.replace(self, places=self.places[kept], levels=self.levels[kept])

    def fit(self, budget: int) -> bool:
        return int(self.bytes_each().sum()) <= budget

    def integers(self) -> Integers:
        """Return distance and weight in turns."""
        gaps = np.diff(self.places, prepend=-1)
        head = self.places // self.size
        begins = np.diff(head, prepend=-1) > 0
        gaps[begins] = self.places[begins] % self.size + 1
        return np.stack([gaps, self.levels], axis=1).ravel()

    def bytes_each(self) -> Integers:
        """Return how many bytes each integer takes."""
        values = self.integers()
        return 1 + sum((values >= 1 << bits for bits in (7, 14, 21, 28)), np.zeros_like(values))

    def packed(self, steps: int, floor: float, left_out: float) -> PackedWeights:
        values, each = self.integers(), self.bytes_each()
        ends = each.cumsum()
        data = np.zeros(int(each.sum()), np.uint8)
        for place in range(int(each.max(initial=0))):
            has = each > place
            more = np.where(each[has] > place + 1, 0x80, 0)
            data[ends[has] - each[has] + place] = values[has] >> 7 * place & 0x7F | more
        of_pairs = each.reshape(-1, 2).sum(axis=1)
        sizes = np.bincount(self.places // self.size, of_pairs, self.heads).astype(int)
        return PackedWeights(data.tobytes(), tuple(sizes.tolist()), steps, floor, left_out)
