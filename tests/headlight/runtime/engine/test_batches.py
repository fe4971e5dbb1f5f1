"""Rounded lengths: they change shapes and no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.runtime import EncodeItem, Runtime
from headlight.runtime.encode_items import ItemResult, Selection, everything
from headlight.runtime.engine.batches import AS_LONG, Rounding, pad
from tests.conftest import MakeBundle

MULTIPLE = 8


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 5000))
def test_a_rounded_length_is_a_multiple_or_the_maximum(
    length: int, multiple: int, most: int
) -> None:
    rounded = Rounding(multiple, most).up(length)
    assert rounded >= length
    assert rounded <= max(length, most)
    assert rounded % multiple == 0 or rounded == max(length, most)
    assert rounded < length + multiple
    assert AS_LONG.up(length) == length


def test_rounding_padding_is_masked() -> None:
    ids, mask = pad([np.array([5, 6, 7]), np.array([8])], Rounding(4, 100))
    assert ids.tolist() == [[5, 6, 7, 0], [8, 0, 0, 0]]
    assert mask.tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("rounding", [AS_LONG, Rounding(4, 100), Rounding(3, 100), Rounding(8, 3)])
def test_a_lone_sequence_is_padded_as_beside_a_shorter_one(rounding: Rounding) -> None:
    alone, beside = np.array([5, 6, 7]), np.array([8])
    for lone, both in zip(pad([alone], rounding), pad([alone, beside], rounding), strict=True):
        assert lone.dtype == np.int64
        assert lone.flags.c_contiguous
        assert lone.tolist() == both[:1].tolist()


def test_the_mask_of_a_lone_sequence_is_new() -> None:
    """The engine hides tokens in it."""
    sequence = np.array([5, 6, 7])
    _, mask = pad([sequence])
    mask[0, 1] = 0
    assert pad([sequence])[1].tolist() == [[1, 1, 1]]
    assert sequence.tolist() == [5, 6, 7]


@pytest.fixture(scope="module", params=["rope", "learned", "alibi"])
def pair(make_bundle: MakeBundle, request: pytest.FixtureRequest) -> tuple[Runtime, Runtime]:
    """Open the same bundle with exact and with rounded lengths.

    Learned positions have no row after the last.
    """
    path: Path = make_bundle(request.param)
    return Runtime(path, threads=1), Runtime(path, threads=1, round_lengths=MULTIPLE)


def items_of(lengths: list[int], selection: Selection) -> list[EncodeItem]:
    rng = np.random.default_rng(lengths)
    return [
        EncodeItem(rng.integers(1, 90, size=length, dtype=np.int64), selection)
        for length in lengths
    ]


def check_equal(plain: ItemResult, rounded: ItemResult) -> None:
    assert plain.keys() == rounded.keys()
    for name, one in plain.items():
        most = 5e-6 if name in ("tokens", "hidden") else 1e-6
        np.testing.assert_allclose(rounded[name], one, atol=most, rtol=0)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 48), min_size=1, max_size=6), st.booleans())
def test_rounding_does_not_change_results(
    pair: tuple[Runtime, Runtime], lengths: list[int], whole: bool
) -> None:
    selection = (
        everything(pair[0].bundle.manifest.architecture) if whole else Selection(tokens=True)
    )
    items = items_of(lengths, selection)
    for plain, rounded in zip(*(runtime.engine.run(items) for runtime in pair), strict=True):
        check_equal(plain, rounded)


@pytest.mark.parametrize("below", [0, 1, MULTIPLE - 1])
def test_padding_stays_within_the_model_length(pair: tuple[Runtime, Runtime], below: int) -> None:
    length = pair[0].bundle.manifest.max_length - below
    items = items_of([length], Selection(tokens=True))
    [plain], [rounded] = (runtime.engine.run(items) for runtime in pair)
    check_equal(plain, rounded)


def test_a_model_length_that_is_no_multiple_is_fully_served(make_bundle: MakeBundle) -> None:
    path = make_bundle("learned")
    most = Runtime(path, threads=1).bundle.manifest.max_length
    odd = Runtime(path, threads=1, round_lengths=most - 1)
    [result] = odd.engine.run(items_of([most], Selection()))
    assert result.pooled is not None
    odd.check_golden()
