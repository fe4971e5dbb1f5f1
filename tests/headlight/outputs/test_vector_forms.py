"""Truncation, normalisation and quantisation of vectors, against plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from headlight.errors import BundleError, InvalidInput
from headlight.outputs.vector_forms import (
    AvailableForms,
    VectorForm,
    as_type,
    as_types,
    resolve_pooled,
    shape_pooled,
    shape_rows,
    unit_length,
)
from headlight.runtime.bundle.int8_ranges import load_ranges
from headlight.runtime.values import Floats
from headlight.spec import PooledSpec, TokensSpec, VectorType, packed

NUMBERS = st.floats(-100, 100, width=32)
RANGES = np.stack([np.full(16, -0.5), np.full(16, 0.5)]).astype(np.float32)
AVAILABLE = AvailableForms(20, True, {16: RANGES})


def vectors(width: int = 16) -> st.SearchStrategy[Floats]:
    return arrays.arrays(np.float32, st.tuples(st.integers(1, 5), st.just(width)), elements=NUMBERS)


def bits(rows: Floats) -> NDArray[np.uint8]:
    """Pack the bits; the first dimension of eight is worth 128."""
    signs = (rows > 0).reshape(len(rows), -1, 8)
    made: NDArray[np.uint8] = (signs * 2 ** np.arange(7, -1, -1)).sum(-1).astype(np.uint8)
    return made


@given(vectors())
def test_bits_are_signs_with_the_first_dimension_highest(rows: Floats) -> None:
    np.testing.assert_array_equal(as_type(rows, "ubinary"), bits(rows))
    signed = as_type(rows, "binary")
    assert signed.dtype == np.int8
    np.testing.assert_array_equal(signed.astype(int), bits(rows).astype(int) - 128)


@given(vectors(), arrays.arrays(np.float32, (2, 16), elements=NUMBERS))
def test_int8_divides_the_range_into_steps_and_saturates(rows: Floats, ends: Floats) -> None:
    ranges = np.sort(ends, axis=0)
    steps = (ranges[1] - ranges[0]) / np.float32(255)
    steps[steps == 0] = 1
    with np.errstate(over="ignore"):
        expected = np.clip(np.floor((rows - ranges[0]) / steps), 0, 255) - 128
    got = as_type(rows, "int8", ranges)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, expected)
    for row in range(len(rows)):  # each by itself
        np.testing.assert_array_equal(as_type(rows[row], "int8", ranges), got[row])


@given(vectors())
def test_int8_is_within_one_step_of_the_value(rows: Floats) -> None:
    ranges = np.stack([rows.min(0), rows.max(0)])
    steps = np.maximum((ranges[1] - ranges[0]) / 255, 1e-30)
    back = ranges[0] + (as_type(rows, "int8", ranges).astype(np.float64) + 128) * steps
    assert (np.abs(back - rows) <= 1.001 * steps + 1e-4).all()


def test_float16_is_the_numpy_cast() -> None:
    rows = np.array([[1.0, 1e-8, -0.1, 1e6]], dtype=np.float32)
    np.testing.assert_array_equal(as_type(rows, "float16"), [[1.0, 0.0, np.float16(-0.1), np.inf]])


@given(vectors(20), st.integers(1, 20), st.booleans())
def test_vectors_are_truncated_then_normalised(rows: Floats, width: int, unit: bool) -> None:
    wanted = [VectorForm(width, unit) if at % 3 else None for at in range(len(rows))]
    for row, vector, got in zip(
        rows, wanted, shape_pooled(rows, wanted, normalize=True), strict=True
    ):
        if vector is None or got is None:
            assert vector is None
            assert got is None
            continue
        cut = row[:width].astype(np.float64)
        expected = cut / max(np.linalg.norm(cut), 1e-12) if unit else cut
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-30)
        assert got.base is None
        [alone] = shape_pooled(row[None], [vector], normalize=True)
        np.testing.assert_array_equal(alone, got)


@pytest.mark.parametrize("normalize", [True, False])
def test_defaults_are_those_of_the_model(normalize: bool) -> None:
    row = np.array([3.0, 4.0], dtype=np.float32)
    expected = np.array([0.6, 0.8], dtype=np.float32) if normalize else row
    [got, longer] = shape_pooled(
        np.stack([row, 2 * row]), [VectorForm(), VectorForm(unit=False)], normalize
    )
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(longer, 2 * row)


def test_zeros_stay_zeros_and_large_numbers_do_not_overflow() -> None:
    rows = np.array([[0.0, 0.0], [3e38, 3e38]], dtype=np.float32)
    np.testing.assert_allclose(unit_length(rows), [[0.0, 0.0], [0.5**0.5, 0.5**0.5]], rtol=1e-6)


def test_rows_are_normalised_separately_and_copied() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float32)
    np.testing.assert_allclose(
        shape_rows(rows, TokensSpec(normalize=True)), [[0.6, 0.8], [0.0, 1.0]]
    )
    halves = shape_rows(rows, TokensSpec(dtype="float16"))
    assert halves.dtype == np.float16
    assert not np.shares_memory(shape_rows(rows, TokensSpec()), rows)


def test_types_are_in_the_requested_order_with_the_announced_bytes() -> None:
    rows = np.ones((3, 16), dtype=np.float32)
    dtypes: tuple[VectorType, ...] = ("ubinary", "int8", "float32", "binary", "float16")
    vector = VectorForm(16, True, dtypes, RANGES)
    made = as_types(rows, vector)
    assert tuple(made) == dtypes
    for dtype, array in made.items():
        assert (array.shape[1], array.nbytes // 3) == packed(16, dtype)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PooledSpec(), VectorForm()),
        (PooledSpec(dimensions=20), VectorForm(20, True)),
        (
            PooledSpec(dimensions=16, dtypes=("int8", "ubinary")),
            VectorForm(16, True, ("int8", "ubinary")),
        ),
        (PooledSpec(dimensions=1, normalize=False), VectorForm(1, False, ("float32",))),
        (
            PooledSpec(dimensions=16, normalize=True, dtypes=("int8",)),
            VectorForm(16, True, ("int8",)),
        ),
    ],
)
def test_output_specs_are_resolved(spec: PooledSpec, expected: VectorForm) -> None:
    assert resolve_pooled(spec, AVAILABLE) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            PooledSpec(dimensions=21),
            r"outputs\.pooled\.dimensions: is 21; this model's vectors have 1 \.\. 20",
        ),
        (
            PooledSpec(dtypes=("int4",)),  # type: ignore[arg-type]
            r"outputs\.pooled\.dtypes: is 'int4'; must be one of float32, ",
        ),
        (PooledSpec(dtypes=("int8", "int8")), r"outputs\.pooled\.dtypes: names one twice"),
        (
            PooledSpec(dtypes=("binary",)),
            r"outputs\.pooled\.dimensions: is 20; binary packs 8 into a byte",
        ),
        (
            PooledSpec(dtypes=("int8",)),
            r"int8 of 20 dimensions .* has those of 16; .*--calibration TEXTS",
        ),
        (
            PooledSpec(dimensions=16, normalize=False, dtypes=("int8",)),
            (
                r"outputs\.pooled\.normalize: int8 was calibrated on vectors normalised; "
                r"leave normalize out"
            ),
        ),
    ],
)
def test_impossible_output_specs_are_refused_with_a_remedy(spec: PooledSpec, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        resolve_pooled(spec, AVAILABLE)


def test_available_types_depend_on_the_model() -> None:
    assert AVAILABLE.dtypes == ("float32", "float16", "int8", "binary", "ubinary")
    assert AvailableForms(7, True).dtypes == ("float32", "float16")


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"int8_16": RANGES.astype(np.float64)}, "expected float32"),
        ({"int8_16": RANGES[:, :8]}, r"expected float32 \[2, 16\]"),
        ({"int8_16": RANGES[::-1]}, "ends before it begins"),
        ({"int8_16": np.full((2, 16), np.nan, np.float32)}, "not finite"),
        ({"int8_16": RANGES * np.float32(1e38)}, "not finite and small"),
        ({"int8_21": np.zeros((2, 21), np.float32)}, "a width d up to 20"),
        ({"int8_": RANGES}, "expected int8_d"),
        ({"int8_16": np.array(["a"])}, "expected float32"),
    ],
)
def test_invalid_int8_ranges_are_refused(
    tmp_path: Path, held: dict[str, Any], message: str
) -> None:
    np.savez(tmp_path / "ranges.npz", **held)
    with pytest.raises(BundleError, match=message):
        load_ranges(tmp_path / "ranges.npz", 20)


def test_int8_ranges_are_read_by_width(tmp_path: Path) -> None:
    np.savez(tmp_path / "ranges.npz", int8_16=RANGES, int8_8=RANGES[:, :8])
    assert sorted(load_ranges(tmp_path / "ranges.npz", 20)) == [8, 16]
