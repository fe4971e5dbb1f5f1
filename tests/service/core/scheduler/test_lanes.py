from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight_service.core.scheduler.lanes import Batch, BatchLimit, Entry, Lane, LaneKey

EMBED = LaneKey("m", "embed")


def entry(
    length: int,
    arrived: float = 0.0,
    deadline: float = math.inf,
    lane: LaneKey = EMBED,
    size: int | None = None,
) -> Entry[int]:
    return Entry(lane, 0, length, size or length, arrived, deadline)


def lengths_of(batch: Batch[int]) -> list[int]:
    return [each.length for each in batch.entries]


@pytest.mark.parametrize(
    ("waiting", "limit", "batches"),
    [
        # The oldest and those nearest in length; what is larger than the whole limit, alone.
        ([10, 30, 11, 9, 50], BatchLimit(tokens=33), [[10, 11, 9], [30], [50]]),
        ([100, 10, 90], BatchLimit(tokens=10**6, max_padding=0.1), [[100, 90], [10]]),
        ([4, 5, 4, 4, 5], BatchLimit(tokens=100, max_padding=0), [[4, 4, 4], [5, 5]]),
        ([8] * 5, BatchLimit(tokens=10**6, squares=3 * 64), [[8, 8, 8], [8, 8]]),
    ],
    ids=["tokens", "padding", "no padding", "squares"],
)
def test_a_batch_is_the_oldest_item_and_those_nearest_in_length(
    waiting: list[int], limit: BatchLimit, batches: list[list[int]]
) -> None:
    lane: Lane[int] = Lane()
    for place, length in enumerate(waiting):
        lane.add(entry(length, arrived=place))
    assert [lengths_of(lane.take(0, limit)) for _ in batches] == batches
    assert lengths_of(lane.take(0, limit)) == []


def test_batch_limits_use_rounded_lengths_and_reports_true_ones() -> None:
    lane: Lane[int] = Lane()
    for length in (3, 8, 5, 9):
        lane.add(entry(length, size=-(-length // 8) * 8))
    assert lane.waiting == 8 + 8 + 8 + 16
    # Entries of one size need no padding.
    batch = lane.take(0, BatchLimit(tokens=24, max_padding=0))
    assert (lengths_of(batch), batch.longest, batch.total, batch.padded) == ([3, 8, 5], 8, 16, 24)
    assert lane.waiting == 16


def test_expired_entries_are_returned_separately_and_cost_nothing() -> None:
    lane: Lane[int] = Lane()
    late, alive = entry(10, deadline=5), [entry(10), entry(10)]
    for each in (late, *alive):
        lane.add(each)
    batch = lane.take(5, BatchLimit(tokens=20))
    assert batch.expired == [late]
    assert batch.entries == alive


def test_a_lane_of_expired_entries_yields_them_all() -> None:
    lane: Lane[int] = Lane()
    entries = [entry(length, deadline=1) for length in (3, 4, 5)]
    for each in entries:
        lane.add(each)
    batch = lane.take(2, BatchLimit(tokens=20))
    assert (batch.entries, batch.expired, lane.count) == ([], entries, 0)


limits = st.builds(
    BatchLimit,
    tokens=st.integers(1, 200),
    squares=st.none() | st.integers(1, 5000),
    max_padding=st.floats(0, 1),
)


requests = st.tuples(
    st.lists(st.integers(1, 24), min_size=1, max_size=30), st.integers(1, 12) | st.just(math.inf)
)


@settings(max_examples=200)
@given(limits, st.lists(requests, max_size=8), st.lists(st.integers(0, 100), max_size=5))
def test_adding_entries_together_equals_adding_them_one_by_one(
    limit: BatchLimit, asked: list[tuple[list[int], float]], cancelled: list[int]
) -> None:
    together: Lane[int] = Lane()
    apart: Lane[int] = Lane()
    pairs = list[tuple[Entry[int], Entry[int]]]()
    for now, (lengths, ttl) in enumerate(asked):
        own = [
            (entry(length, now, now + ttl), entry(length, now, now + ttl))
            for length in sorted(lengths, reverse=True)
        ]
        together.add(*(one for one, _ in own))
        for _, other in own:
            apart.add(other)
        pairs += own
    place = {id(each): at for at, pair in enumerate(pairs) for each in pair}
    for at in cancelled:
        if at < len(pairs):
            assert together.discard(pairs[at][0]) == apart.discard(pairs[at][1])
    now = 3
    while apart.count:
        got, expected = together.take(now, limit), apart.take(now, limit)
        assert [place[id(each)] for each in got.entries] == [
            place[id(each)] for each in expected.entries
        ]
        assert [place[id(each)] for each in got.expired] == [
            place[id(each)] for each in expected.expired
        ]
        assert (got.longest, got.total, got.padded) == (
            expected.longest,
            expected.total,
            expected.padded,
        )
        assert (together.count, together.waiting) == (apart.count, apart.waiting)
        now += 3
    assert not together.count


@given(limits, st.integers(1, 20), st.integers(1, 40), st.integers(1, 40), st.integers(1, 60))
def test_capacity_for_many_entries_equals_that_for_single_ones(
    limit: BatchLimit, count: int, longest: int, size: int, wanted: int
) -> None:
    total, fit = count * longest - count // 2, 0
    while fit < wanted and limit.admits(
        count + fit + 1, max(longest, size), total + (fit + 1) * size
    ):
        fit += 1
    assert limit.room(count, longest, total, size, wanted) == fit


def test_adding_many_entries_costs_little_more_than_one() -> None:
    """Counted in calls; the work per entry calls no functions."""

    def calls(count: int) -> int:
        lane: Lane[int] = Lane()
        entries = [entry(8) for _ in range(count)]

        def work() -> None:
            lane.add(*entries)
            assert len(lane.take(0, BatchLimit(tokens=10**6)).entries) == count

        return calls_made(work)

    assert calls(500) < 2 * calls(5)


def calls_made(work: Callable[[], None]) -> int:
    """Return the number of Python and C function calls of some work.

    A measure of cost that is independent of the machine's load.
    """
    count = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # garbage collection would be counted
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def test_the_cost_of_an_entry_is_flat_from_a_hundred_to_ten_thousand() -> None:
    """Adding, taking or cancelling.

    Counted in operations, each of constant cost however many entries wait.
    """

    def calls_per_entry(count: int) -> float:
        lane: Lane[int] = Lane()
        limit = BatchLimit(tokens=1024, max_padding=0.2)
        # As many different lengths in both: they are bounded by the model and cost a little
        # each.
        entries = [entry(1 + (place * 37) % 64, arrived=place) for place in range(count)]

        def work() -> None:
            for each in entries:
                lane.add(each)
            for each in entries[::5]:
                lane.discard(each)
            while lane.take(0, limit).entries:
                pass

        return calls_made(work) / count

    few, many = calls_per_entry(100), calls_per_entry(10_000)
    assert many < 1.2 * few
