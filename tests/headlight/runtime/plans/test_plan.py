"""Plans: what they yield, and what they return of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.plans.occlude import occlude
from headlight.runtime.plans.plan import OccludedUnit, drive, encode, waves

VECTORS = Selection()


def item(length: int, selection: Selection = VECTORS) -> EncodeItem:
    return EncodeItem(np.ones(length, np.int64), selection)


def vectors(items: Sequence[EncodeItem]) -> list[ItemResult]:
    """Return [length, hidden tokens] as the vector of each item."""
    return [
        ItemResult(pooled=np.array([len(each.ids), sum(each.occluded)], np.float32))
        for each in items
    ]


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 29)), max_size=40),
    st.integers(1, 60),
)
def test_waves_hide_each_unit_once_and_in_order(
    lengths: list[int], hidden: list[tuple[int, int]], most: int
) -> None:
    wholes = [item(length, Selection(tokens=True)) for length in lengths]
    units = [OccludedUnit(at % len(lengths), (token,)) for at, token in hidden]
    yielded = list(waves(wholes, units, VECTORS, most))
    made = [each for wave in yielded for each in wave.items]
    assert [each.occluded for each in made] == [unit.tokens for unit in units]
    assert [len(each.ids) for each in made] == [lengths[unit.item] for unit in units]
    assert all(each.selection is VECTORS for each in made)
    for wave in yielded:
        assert wave.wave
        assert len(wave.items) == 1 or sum(len(each.ids) for each in wave.items) <= most


def test_a_slice_is_made_when_the_results_of_the_last_one_are_there() -> None:
    made, computed = list[int](), list[int]()

    def slices() -> Iterator[list[EncodeItem]]:
        for length in (3, 4, 5):
            made.append(length)
            yield [item(length)] * 2

    def run(items: Sequence[EncodeItem]) -> list[ItemResult]:
        computed.append(len(made))
        return vectors(items)

    results = drive(encode(slices()), run)
    assert [each["pooled"][0] for each in results] == [3, 3, 4, 4, 5, 5]
    assert computed == [1, 2, 3]


@pytest.mark.parametrize("most", [1, 8, 1000])
def test_an_occlusion_is_the_same_in_waves_of_any_size(most: int) -> None:
    plan = occlude(
        [item(4), item(9)],
        np.array([0, 2, 3]),
        None,
        "dot",
        VECTORS,
        most_tokens=most,
    )
    numbers = drive(plan, vectors)
    assert numbers.moved.tolist() == [0, 2, 3]
    assert numbers.similarity == 36
    assert numbers.fall is not None
    assert numbers.fall.tolist() == [0, 0, 0]


def test_a_failed_run_ends_the_plan() -> None:
    def fail(items: Sequence[EncodeItem]) -> list[ItemResult]:
        raise ValueError("no device")

    with pytest.raises(ValueError, match="no device"):
        drive(encode([[item(3)]]), fail)
