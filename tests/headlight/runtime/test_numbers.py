from __future__ import annotations

import warnings

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headlight.runtime.numbers import halve, quantise
from headlight.runtime.values import Floats

ANY = arrays.arrays(np.float32, st.tuples(st.integers(0, 3), st.integers(0, 70)), elements=st.floats(width=32))
WEIGHTS = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 4), st.integers(1, 50)), elements=st.floats(0, 1, width=32)
)


def assert_as_astype(numbers: Floats) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflow: infinity is meant
        expected = numbers.astype(np.float16)
        found = halve(numbers)
    assert found.shape == expected.shape
    same = (found.view(np.uint16) == expected.view(np.uint16)) | (np.isnan(found) & np.isnan(expected))
    assert same.all()


@given(ANY)
def test_halves_are_those_of_numpy(numbers: Floats) -> None:
    assert_as_astype(numbers)


def test_every_half_and_what_lies_between_two_is_rounded_as_by_numpy() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    between = (finite[1:] + finite[:-1]) / np.float32(2)
    for numbers in (finite, between, np.nextafter(between, np.float32(9)), np.nextafter(between, np.float32(-9))):
        assert_as_astype(numbers)


@given(WEIGHTS)
def test_bytes_are_within_half_a_step(rows: Floats) -> None:
    values, scales = quantise(rows)
    assert (np.abs(values * scales[:, None] - rows) <= scales[:, None] * 0.5001 + 1e-37).all()


def test_a_uniform_row_of_two_thousand_keeps_its_sum_in_eight_bits() -> None:
    values, scales = quantise(np.full((1, 2000), 1 / 2000, dtype=np.float32))
    assert abs(float((values * scales[..., None]).sum()) - 1) < 1e-5


def test_rows_without_weight_survive_eight_bits() -> None:
    values, scales = quantise(np.zeros((2, 3), dtype=np.float32))
    assert not values.any()
    assert not scales.any()


def test_large_numbers_give_no_warning() -> None:
    numbers = np.array([255.9, 300.0, -65000.0, 1e-7], dtype=np.float32)
    np.testing.assert_array_equal(halve(numbers), numbers.astype(np.float16))
