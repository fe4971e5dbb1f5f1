from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.priority import Priority
from service.lanes import Batch, Budget, Entry, LaneKey
from service.policy import BULK_TURN, LEAST_SPLIT_TOKENS, Lanes

EMBED, ATTEND = LaneKey("m", "embed"), LaneKey("m", "attend")
RATE = 1000  # padded tokens a second, of the engine that `paced` knows


def entry(
    length: int,
    arrived: float = 0.0,
    deadline: float = math.inf,
    lane: LaneKey = EMBED,
    priority: Priority = "interactive",
) -> Entry[int]:
    return Entry(lane, 0, length, length, arrived, deadline, priority)


def lanes_of(budget: Budget, entries: Sequence[Entry[int]], bulk_seconds: float = math.inf) -> Lanes[int]:
    lanes: Lanes[int] = Lanes({EMBED: budget, ATTEND: budget}, bulk_seconds=bulk_seconds)
    for each in entries:
        lanes.add(each)
    return lanes


def lengths_of(batch: Batch[int]) -> list[int]:
    return [each.length for each in batch.entries]


def bulk(length: int, arrived: float = 0.0) -> Entry[int]:
    return entry(length, arrived, priority="bulk")


def test_the_lane_whose_head_waited_longest_goes_first() -> None:
    lanes: Lanes[int] = Lanes({EMBED: Budget(100), ATTEND: Budget(100, 1000)})
    second, first = entry(5, arrived=2), entry(5, arrived=1, lane=ATTEND)
    lanes.add(second)
    lanes.add(first)
    assert len(lanes) == 2
    assert lanes.take(3).entries == [first]
    assert lanes.take(3).entries == [second]
    assert lanes.take(3).entries == []


def test_discarding_is_idempotent_and_at_once() -> None:
    lanes: Lanes[int] = Lanes({EMBED: Budget(100)})
    gone, stays = entry(5), entry(5)
    lanes.add(gone)
    lanes.add(stays)
    assert lanes.discard(gone)
    assert not lanes.discard(gone)
    assert lanes.take(0).entries == [stays]


def test_interactive_goes_before_bulk_however_late_it_comes_and_shares_no_batch_with_it() -> None:
    lanes = lanes_of(Budget(1000), [bulk(5), bulk(5), entry(5, arrived=9), entry(5, arrived=9)])
    assert [each.priority for each in lanes.take(9).entries] == ["interactive", "interactive"]
    assert [each.priority for each in lanes.take(9).entries] == ["bulk", "bulk"]


def test_interactive_goes_before_bulk_of_another_graph() -> None:
    late = entry(5, arrived=9, lane=ATTEND)
    lanes = lanes_of(Budget(1000), [bulk(5), late])
    assert lanes.take(9).entries == [late]


def test_under_an_interactive_flood_every_so_manyth_batch_is_bulk() -> None:
    lanes = lanes_of(Budget(1), [bulk(5) for _ in range(3)])
    took = []
    for now in range(3 * BULK_TURN):
        lanes.add(entry(5, arrived=now))
        lanes.add(entry(5, arrived=now))
        took.append(lanes.take(now).entries[0].priority)
    assert took == [*["interactive"] * (BULK_TURN - 1), "bulk"] * 3


def test_batches_that_overtook_nobody_give_bulk_no_turn() -> None:
    lanes = lanes_of(Budget(1), [entry(5) for _ in range(2 * BULK_TURN)])
    for _ in range(BULK_TURN):
        lanes.take(0)
    lanes.add(bulk(5))
    assert lanes.take(0).entries[0].priority == "interactive"


def test_a_lone_interactive_item_among_bulk_waits_for_no_batch_that_has_not_begun() -> None:
    lanes = lanes_of(Budget(10), [bulk(5) for _ in range(1000)])
    for now in range(100):
        assert lanes.take(now).entries[0].priority == "bulk"
        lanes.add(entry(5, arrived=now))
        assert lanes.take(now).entries[0].priority == "interactive"


def test_a_batch_of_bulk_takes_about_as_long_as_it_should() -> None:
    lanes = lanes_of(Budget(10**6), [bulk(10) for _ in range(200)], bulk_seconds=0.1)
    counts = []
    for _ in range(12):
        batch = lanes.take(0)
        counts.append(len(batch.entries))
        lanes.ran(batch, 0.01 + batch.padded / RATE)  # what every batch costs, and what its tokens do
    assert counts[0] == 1, "nothing is known yet"
    assert 0.01 + counts[-1] * 10 / RATE <= 0.1 <= 0.01 + (counts[-1] + 2) * 10 / RATE
    lanes.add(bulk(5000))
    assert lengths_of(lanes_of(Budget(100), [bulk(5000)], 0.1).take(0)) == [5000], "alone, where it is longer than that"


def test_the_rate_is_that_of_bulk_alone() -> None:
    """A lone interactive text would make the engine look slow."""
    lanes = lanes_of(Budget(10**6), [bulk(10) for _ in range(100)], bulk_seconds=0.1)
    lanes.ran(lanes.take(0), 10 / RATE)
    for _ in range(BULK_TURN - 2):
        lanes.add(entry(10))
        lanes.ran(lanes.take(0), 1.0)
    assert len(lanes.take(0).entries) == 10


def test_the_time_of_bulk_limits_nothing_interactive() -> None:
    lanes = lanes_of(Budget(1000), [entry(10) for _ in range(100)], bulk_seconds=0.001)
    assert len(lanes.take(0).entries) == 100


def test_what_waits_is_split_evenly_over_idle_streams() -> None:
    lanes = lanes_of(Budget(1024), [entry(53) for _ in range(32)])
    assert len(lanes.take(0, idle_streams=2).entries) == 16
    assert len(lanes.take(0, idle_streams=1).entries) == 16


def test_a_busy_service_splits_nothing_and_small_work_stays_together() -> None:
    entries = [entry(32) for _ in range(16)]
    assert len(lanes_of(Budget(1024), entries).take(0, idle_streams=1).entries) == 16
    few = [entry(LEAST_SPLIT_TOKENS // 4) for _ in range(4)]
    assert len(lanes_of(Budget(1024), few).take(0, idle_streams=2).entries) == 4


budgets = st.builds(
    Budget,
    tokens=st.integers(1, 200),
    squares=st.none() | st.integers(1, 5000),
    max_padding=st.floats(0, 1),
)
priorities: st.SearchStrategy[Priority] = st.sampled_from(("interactive", "bulk"))
kinds = st.tuples(st.sampled_from([EMBED, ATTEND]), priorities)
# What happens: an arrival (of a kind, length, seconds to its deadline), a cancellation of some arrival, or a batch, with so many idle.
arrivals = st.tuples(st.just("add"), kinds, st.integers(1, 64), st.integers(1, 40) | st.just(math.inf))
cancels = st.tuples(st.just("cancel"), kinds, st.integers(0, 200), st.just(0))
takes = st.tuples(st.just("take"), kinds, st.integers(1, 3), st.just(0))


class Model:
    """What must hold of every batch, by a plain list in order of arrival."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.lanes = lanes_of(budget, [], bulk_seconds=0.05)
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
        batch = self.lanes.take(now, idle_streams)
        assert all(each.deadline <= now for each in batch.expired)
        assert all(each.deadline > now for each in batch.entries)
        assert bool(batch.entries or batch.expired) == bool(self.waiting)
        if batch.entries:
            self.check(batch, now)
            self.lanes.ran(batch, batch.padded / RATE)
        for each in batch.entries + batch.expired:
            self.waiting.remove(each)  # fails where it was cancelled or taken before
        self.gone += batch.entries + batch.expired
        assert len(self.lanes) == len(self.waiting)

    def check(self, batch: Batch[int], now: float) -> None:
        first, budget = batch.entries[0], self.budget
        assert len({(each.lane, each.priority) for each in batch.entries}) == 1
        rivals = [each for each in self.waiting if each.priority == first.priority and each.lane == first.lane]
        assert first is next(each for each in rivals if each.deadline > now), "the oldest is in the batch"
        for length in {each.length for each in batch.entries}:
            same = [each for each in rivals if each.length == length and each.deadline > now]
            taken = [each for each in batch.entries if each.length == length]
            assert taken == same[: len(taken)], "of one length, the oldest first"
        if len(batch.entries) > 1:
            padded = len(batch.entries) * batch.longest
            assert padded <= budget.tokens
            assert budget.squares is None or padded * batch.longest <= budget.squares
            assert padded - batch.total <= budget.max_padding * padded
        others = {each.priority for each in self.waiting}
        if first.priority == "interactive":
            self.overtaken = self.overtaken + 1 if "bulk" in others else 0
            assert self.overtaken < BULK_TURN, "bulk is not overtaken for good"
        else:
            assert "interactive" not in others or self.overtaken == BULK_TURN - 1, "bulk goes first in its turn alone"
            self.overtaken = 0


@settings(max_examples=200, deadline=None)
@given(budgets, st.lists(arrivals | arrivals | cancels | takes, max_size=100))
def test_whatever_happens(budget: Budget, story: list[tuple[str, tuple[LaneKey, Priority], int, float]]) -> None:
    model, added = Model(budget), list[Entry[int]]()
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
    assert sorted(map(id, model.gone)) == sorted(map(id, added)), "nothing is lost and nothing taken twice"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=20), budgets)
def test_no_interactive_flood_starves_bulk(lengths: list[int], budget: Budget) -> None:
    entries = [bulk(length, arrived=place) for place, length in enumerate(lengths)]
    lanes = lanes_of(budget, entries, bulk_seconds=0.01)
    for now in range(BULK_TURN * len(entries)):
        lanes.add(entry(1 + now % 64, arrived=now))
        lanes.add(entry(1 + now % 64, arrived=now))
        if entries[-1] in lanes.take(now).entries:
            return
    pytest.fail("starved")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([EMBED, ATTEND]), st.integers(1, 64)), min_size=1, max_size=80), budgets, budgets
)
def test_no_lane_starves_another(queue: list[tuple[LaneKey, int]], embed: Budget, attend: Budget) -> None:
    """However many of the other kind keep coming, an entry waits for no more batches than there are entries before it."""
    lanes: Lanes[int] = Lanes({EMBED: embed, ATTEND: attend})
    entries = [entry(length, arrived=place, lane=lane) for place, (lane, length) in enumerate(queue)]
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
