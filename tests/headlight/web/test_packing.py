"""Weights in few bytes, read back."""

from __future__ import annotations

import numpy as np
import pytest

from headlight.results import Floats
from headlight.web.packing import COARSE, FINE, PackedWeights, pack
from tests.headlight.web.unpacking import unpacked


def softmax(shape: tuple[int, ...], spread: float) -> Floats:
    raw = np.exp(np.random.default_rng(0).normal(0, spread, shape))
    weights: Floats = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    return weights


def read(packed: PackedWeights, shape: tuple[int, ...]) -> np.ndarray:
    return unpacked(packed.data, packed.sizes, packed.steps, shape)


def test_weights_that_fit_come_back_within_half_a_step() -> None:
    weights = softmax((2, 3, 40, 40), 4)
    weights[1, 2] = np.eye(40)  # distances of more than one byte, a last row, and weights of 1
    weights[0, 1] = 0
    packed = pack(weights, 10**6)
    assert (packed.steps, packed.floor, packed.left_out) == (FINE, 0, 0)
    assert np.abs(read(packed, weights.shape) - weights).max() <= 0.5 / FINE + 1e-7


@pytest.mark.parametrize("budget", [20_000, 5_000, 100])
def test_above_the_smallest_floor_that_fits_nothing_is_lost(budget: int) -> None:
    weights = softmax((2, 3, 60, 60), 2)
    packed = pack(weights, budget)
    found = read(packed, weights.shape)
    held = found > 0
    assert len(packed.data) <= budget
    assert weights[held].min() >= packed.floor - 0.5 / COARSE
    assert weights[~held].max() < packed.floor
    assert np.abs(found - weights)[held].max() <= 0.5 / COARSE + 1e-7
    assert packed.left_out == pytest.approx(1 - found.sum() / weights.sum(), abs=1e-3)
    # The next smaller floor would not fit: what it adds takes two bytes or more each.
    added = np.count_nonzero(weights >= packed.floor - 1.5 / COARSE) - held.sum()
    assert len(packed.data) + 5 * added > budget


def test_even_weights_that_cannot_fit_are_all_left_out_and_that_is_said() -> None:
    packed = pack(np.full((1, 2, 100, 100), 0.01, np.float32), 1000)
    assert (packed.data, packed.sizes, packed.left_out) == (b"", (0, 0), 1)
    assert packed.floor > 0.01
