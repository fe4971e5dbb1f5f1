"""Invariants of batches under any arrivals, cancellations and expiry."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import BULK_TURN, LaneSet
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, Entry, LaneKey
from tests.service.batching import Slots
from tests.service.core.scheduler.test_batch_policy import (
    ATTEND,
    EMBED,
    RATE,
    entry,
    lanes_of,
)

limits = st.builds(
    BatchLimit,
    tokens=st.integers(1, 200),
    squares=st.none() | st.integers(1, 5000),
    max_padding=st.floats(0, 1),
)
priorities: st.SearchStrategy[Priority] = st.sampled_from(("interactive", "bulk"))
kinds = st.tuples(st.sampled_from([EMBED, ATTEND]), priorities)
# Events: an arrival (kind, length, seconds to its deadline), a cancellation of some
# arrival, or a batch, with so many idle slots.
arrivals = st.tuples(
    st.just("add"), kinds, st.integers(1, 64), st.integers(1, 40) | st.just(math.inf)
)
cancels = st.tuples(st.just("cancel"), kinds, st.integers(0, 200), st.just(0))
takes = st.tuples(st.just("take"), kinds, st.integers(1, 3), st.just(0))


class Model:
    """Reference model of batch invariants: a plain list in order of arrival."""

    def __init__(self, limit: BatchLimit) -> None:
        self.limit = limit
        self.lanes = lanes_of(limit, [], bulk_seconds=0.05)
        self.waiting: list[Entry[int]] = []
        self.gone: list[Entry[int]] = []
        self.overtaken = 0

    def add(self, each: Entry[int]) -> None:
        self.waiting.append(each)
        self.lanes.add(each)

    def cancel(self, victim: Entry[int]) -> None:
        if self.lanes.discard(victim):
            self.waiting.remove(victim)
            self.gone.append(victim)

    def take(self, now: float, idle_streams: int) -> None:
        batch = self.lanes.take(now, Slots(idle_streams))
        assert all(each.deadline <= now for each in batch.expired)
        assert all(each.deadline > now for each in batch.entries)
        assert bool(batch.entries or batch.expired) == bool(self.waiting)
        if batch.entries:
            self.check(batch, now)
            self.lanes.ran(batch, batch.padded / RATE)
        for each in batch.entries + batch.expired:
            self.waiting.remove(each)  # fails if it was cancelled or taken before
        self.gone += batch.entries + batch.expired
        assert sum(self.lanes.waiting.values()) == len(self.waiting)

    def check(self, batch: Batch[int], now: float) -> None:
        first, limit = batch.entries[0], self.limit
        assert len({(each.lane, each.priority) for each in batch.entries}) == 1
        rivals = [
            each
            for each in self.waiting
            if each.priority == first.priority and each.lane == first.lane
        ]
        assert first is next(each for each in rivals if each.deadline > now), (
            "the oldest is in the batch"
        )
        for length in {each.length for each in batch.entries}:
            same = [each for each in rivals if each.length == length and each.deadline > now]
            taken = [each for each in batch.entries if each.length == length]
            assert taken == same[: len(taken)], "of one length, the oldest first"
        lengths = [each.length for each in batch.entries]
        assert (batch.longest, batch.total) == (max(lengths), sum(lengths))
        if len(batch.entries) > 1:
            padded = len(batch.entries) * batch.longest
            assert padded <= limit.tokens
            assert limit.squares is None or padded * batch.longest <= limit.squares
            assert padded - batch.total <= limit.max_padding * padded
        others = {each.priority for each in self.waiting}
        if first.priority == "interactive":
            self.overtaken = self.overtaken + 1 if "bulk" in others else 0
            assert self.overtaken < BULK_TURN, "bulk is not overtaken for good"
        else:
            assert "interactive" not in others or self.overtaken == BULK_TURN - 1, (
                "bulk goes first in its turn alone"
            )
            self.overtaken = 0


@settings(max_examples=200)
@given(limits, st.lists(arrivals | arrivals | cancels | takes, max_size=100))
def test_lanes_keep_their_invariants_under_any_operations(
    limit: BatchLimit, story: list[tuple[str, tuple[LaneKey, Priority], int, float]]
) -> None:
    model, added = Model(limit), list[Entry[int]]()
    for now, (event, (lane, priority), number, ttl) in enumerate(story):
        if event == "add":
            added.append(entry(number, now, now + ttl, lane, priority))
            model.add(added[-1])
        elif event == "cancel" and added:
            model.cancel(added[number % len(added)])
        elif event == "take":
            model.take(now, number)
    for rest in range(len(model.waiting)):
        model.take(len(story) + rest, 1)
    assert not model.waiting
    assert sorted(map(id, model.gone)) == sorted(map(id, added)), (
        "nothing is lost and nothing taken twice"
    )


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from([EMBED, ATTEND]), st.integers(1, 64)), min_size=1, max_size=80
    ),
    limits,
    limits,
)
def test_no_lane_starves_another(
    queue: list[tuple[LaneKey, int]], embed: BatchLimit, attend: BatchLimit
) -> None:
    """An entry waits for at most as many batches as there are entries before it.

    However many of the other kind keep arriving.
    """
    lanes: LaneSet[int] = LaneSet({EMBED: embed, ATTEND: attend})
    entries = [
        entry(length, arrived=place, lane=lane) for place, (lane, length) in enumerate(queue)
    ]
    for each in entries:
        lanes.add(each)
    last = entries[-1]
    other = ATTEND if last.lane == EMBED else EMBED
    for now in range(len(entries)):
        batch = lanes.take(now)
        if last in batch.entries:
            return
        lanes.add(entry(1 + now % 3, arrived=len(entries) + now, lane=other))
        lanes.add(entry(last.length, arrived=len(entries) + now, lane=last.lane))
    pytest.fail("starved")
