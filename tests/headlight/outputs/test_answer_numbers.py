"""Validation of numbers and token indices of answers.

test_bad_answers tests the same over the wire.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight import AttentionSpec, BadAnswer
from headlight.outputs.answer_numbers import check_numbers, half_sums, kind_of_attention
from headlight.outputs.answer_places import check_tokens
from headlight.outputs.layout import Layout
from headlight.wire.reassembly import reserved


@pytest.mark.parametrize(
    ("unit", "number", "good"),
    [("token", 1.2, False), ("word", 1.2, True), ("word", -0.1, False), ("word", np.nan, False)],
)
def test_maxima_over_heads_may_sum_to_more_than_1(unit: Any, number: float, good: bool) -> None:
    kind = kind_of_attention(AttentionSpec(reduce=("head_max",), unit=unit))
    for dtype in (np.float32, np.float16):
        with contextlib.nullcontext() if good else pytest.raises(BadAnswer):
            check_numbers("attention", np.array([[0.5, number]], dtype), kind, "fp32")


@given(st.lists(st.floats(0, 1, width=16), min_size=1, max_size=300))
def test_float16_rows_are_summed_without_rounding_errors(row: list[float]) -> None:
    halves = np.array([row, row[::-1]], np.float16)
    np.testing.assert_allclose(half_sums(halves), halves.astype(np.float64).sum(axis=1), rtol=1e-5)


@given(
    keys=st.integers(1, 4000),
    spread=st.floats(0, 30),
    seed=st.integers(0, 2**32 - 1),
    negative_zeros=st.booleans(),
)
def test_correct_float16_rows_are_accepted(
    keys: int, spread: float, seed: int, negative_zeros: bool
) -> None:
    scores = np.random.default_rng(seed).standard_normal((3, keys)) * spread
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    halves = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float16)
    if negative_zeros:
        halves[halves == 0] = -0.0
    exact = halves.astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(half_sums(halves), exact, rtol=keys * 2.0**-24)
    check_numbers("attention", halves, "rows", "fp16")


@pytest.mark.parametrize("keys", [38_000, 100_000, 200_000])
def test_equal_weights_rounded_in_one_direction_are_accepted(keys: int) -> None:
    check_numbers("attention", np.full((1, keys), 1 / keys, np.float16), "rows", "fp16")


def test_float16_overflow_is_no_bad_answer() -> None:
    with pytest.raises(
        BadAnswer,
        match=r"^hidden has 2 values beyond 65504, the largest of float16; ask for float32$",
    ):
        check_numbers("hidden", np.array([[1, np.inf, -np.inf]], np.float16), "finite", "fp32")
    with pytest.raises(BadAnswer, match="malformed: hidden has 2 numbers that are NaN or infinite"):
        check_numbers("hidden", np.array([[1, np.inf, np.nan]], np.float16), "finite", "fp32")


@pytest.mark.parametrize(
    ("choice", "found"), [("first", [1]), ("first", [0, 1]), ("pooled", [0, 1])]
)
def test_an_answer_for_other_tokens_than_requested_is_a_bad_answer(
    choice: Any, found: list[int]
) -> None:
    with pytest.raises(BadAnswer, match="hidden_tokens"):
        check_tokens("hidden_tokens", found, 5, choice)


@pytest.mark.parametrize("elements", [2**50, 2**62, 2**64])
def test_an_impossibly_large_output_is_a_bad_answer(elements: int) -> None:
    layout = Layout("float32", (0, elements), ((elements,),), ("value",))
    with pytest.raises(BadAnswer, match=f"announces {4 * elements} bytes of hidden"):
        reserved("hidden", layout)
