from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from headlight.outputs.vector_forms import halve, quantise
from headlight.runtime.values import Floats

ANY = arrays.arrays(
    np.float32, st.tuples(st.integers(0, 3), st.integers(0, 70)), elements=st.floats(width=32)
)
WEIGHTS = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 4), st.integers(1, 50)), elements=st.floats(0, 1, width=32)
)

SUBNORMAL = arrays.arrays(
    np.int64,
    st.tuples(st.integers(1, 4), st.integers(1, 9)),
    elements=st.one_of(st.integers(0, 2000), st.integers(0, 2**24), st.integers(0, 2**32)),
)


def assert_as_astype(numbers: Floats) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow warnings: infinity is intended
        expected = numbers.astype(np.float16)
        found = halve(numbers)
    assert found.shape == expected.shape
    same = (found.view(np.uint16) == expected.view(np.uint16)) | (
        np.isnan(found) & np.isnan(expected)
    )
    assert same.all()


@given(ANY)
def test_float16_matches_numpy(numbers: Floats) -> None:
    assert_as_astype(numbers)


def test_every_float16_and_midpoint_is_rounded_as_by_numpy() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    between = (finite[1:] + finite[:-1]) / np.float32(2)
    for numbers in (
        finite,
        between,
        np.nextafter(between, np.float32(9)),
        np.nextafter(between, np.float32(-9)),
    ):
        assert_as_astype(numbers)


@given(WEIGHTS)
def test_uint8_values_are_within_half_a_step(rows: Floats) -> None:
    values, scales = quantise(rows)
    assert (np.abs(values * scales[:, None] - rows) <= scales[:, None] * 0.5001 + 1e-37).all()


@given(SUBNORMAL)
def test_tiny_rows_are_within_half_a_step(counts: NDArray[np.int64]) -> None:
    # Subnormal numbers: a scale has few digits, or none.
    rows = (counts * 2.0**-149).astype(np.float32)
    values, scales = quantise(rows)
    exact = scales.astype(np.float64)[:, None]
    assert (np.abs(values * exact - rows) <= exact * 0.5001).all()
    np.testing.assert_array_equal(values.max(axis=1) == 0, rows.max(axis=1) == 0)


@pytest.mark.parametrize(
    "largest", [1, 127, 128, 255, 256, 380, 382, 383, 65025, 2**23 * 255 - 1, 2**23 * 255]
)
def test_subnormal_maxima_do_not_overflow_uint8(largest: int) -> None:
    [[most, none]], [scale] = quantise(np.array([[largest * 2.0**-149, 0]], dtype=np.float32))
    assert none == 0
    assert abs(int(most) * float(scale) - np.float32(largest * 2.0**-149)) <= float(scale) * 0.5001


def test_scales_are_the_row_maximum_over_255() -> None:
    rows = np.array([[2.0**-118, 1e-38], [3e38, 0], [0.3, 0.1]], dtype=np.float32)
    values, scales = quantise(rows)
    np.testing.assert_array_equal(scales, rows.max(axis=1) / np.float32(255))
    assert values.max(axis=1).tolist() == [255, 255, 255]


def test_a_uniform_row_of_two_thousand_keeps_its_sum_as_uint8() -> None:
    values, scales = quantise(np.full((1, 2000), 1 / 2000, dtype=np.float32))
    assert abs(float((values * scales[..., None]).sum()) - 1) < 1e-5


def test_large_numbers_give_no_warning() -> None:
    numbers = np.array([255.9, 300.0, -65000.0, 1e-7], dtype=np.float32)
    np.testing.assert_array_equal(halve(numbers), numbers.astype(np.float16))
