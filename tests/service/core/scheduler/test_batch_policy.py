from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import BULK_TURN, LEAST_SPLIT_TOKENS, LaneSet
from headlight_service.core.scheduler.lanes import BatchLimit, Entry, LaneKey
from tests.service.batching import Slots

EMBED, ATTEND = LaneKey("m", "embed"), LaneKey("m", "attend")
RATE = 1000  # padded tokens a second


def entry(
    length: int,
    arrived: float = 0.0,
    deadline: float = math.inf,
    lane: LaneKey = EMBED,
    priority: Priority = "interactive",
) -> Entry[int]:
    return Entry(lane, 0, length, length, arrived, deadline, priority)


def lanes_of(
    limit: BatchLimit, entries: Sequence[Entry[int]], bulk_seconds: float = math.inf
) -> LaneSet[int]:
    lanes: LaneSet[int] = LaneSet({EMBED: limit, ATTEND: limit}, bulk_seconds=bulk_seconds)
    for each in entries:
        lanes.add(each)
    return lanes


def bulk(length: int, arrived: float = 0.0) -> Entry[int]:
    return entry(length, arrived, priority="bulk")


def test_the_lane_whose_head_waited_longest_goes_first() -> None:
    lanes: LaneSet[int] = LaneSet({EMBED: BatchLimit(100), ATTEND: BatchLimit(100, 1000)})
    second, first = entry(5, arrived=2), entry(5, arrived=1, lane=ATTEND)
    lanes.add(second)
    lanes.add(first)
    assert lanes.waiting["interactive"] == 2
    assert lanes.take(3).entries == [first]
    assert lanes.take(3).entries == [second]
    assert lanes.take(3).entries == []


def test_under_an_interactive_flood_every_nth_batch_is_bulk() -> None:
    lanes = lanes_of(BatchLimit(1), [bulk(5) for _ in range(3)])
    took = []
    for now in range(3 * BULK_TURN):
        lanes.add(entry(5, arrived=now))
        lanes.add(entry(5, arrived=now))
        took.append(lanes.take(now).entries[0].priority)
    assert took == [*["interactive"] * (BULK_TURN - 1), "bulk"] * 3


def test_batches_that_overtook_no_bulk_do_not_count_towards_its_turn() -> None:
    lanes = lanes_of(BatchLimit(1), [entry(5) for _ in range(2 * BULK_TURN)])
    for _ in range(BULK_TURN):
        lanes.take(0)
    lanes.add(bulk(5))
    assert lanes.take(0).entries[0].priority == "interactive"


def test_the_bulk_rate_is_measured_from_bulk_alone() -> None:
    """A single interactive text would make the engine look slow."""
    lanes = lanes_of(BatchLimit(10**6), [bulk(10) for _ in range(100)], bulk_seconds=0.1)
    lanes.ran(lanes.take(0), 10 / RATE)
    for _ in range(BULK_TURN - 2):
        lanes.add(entry(10))
        lanes.ran(lanes.take(0), 1.0)
    assert len(lanes.take(0).entries) == 10


def test_the_bulk_target_time_does_not_limit_interactive_batches() -> None:
    lanes = lanes_of(BatchLimit(1000), [entry(10) for _ in range(100)], bulk_seconds=0.001)
    assert len(lanes.take(0).entries) == 100


@pytest.mark.parametrize(
    ("length", "count", "slots", "took"),
    [
        (53, 32, Slots(2), 16),
        (53, 32, Slots(1), 32),
        (53, 32, Slots(2, 0), 32),  # bulk has both, and ends beside it
        (LEAST_SPLIT_TOKENS // 4, 7, Slots(2), 7),
    ],
    ids=["idle", "busy", "bulk", "little work"],
)
def test_waiting_items_are_split_evenly_over_idle_slots(
    length: int, count: int, slots: Slots, took: int
) -> None:
    lanes = lanes_of(BatchLimit(2048), [entry(length) for _ in range(count)])
    assert len(lanes.take(0, slots).entries) == took
    assert len(lanes.take(0, Slots(1)).entries) == count - took


def test_held_back_bulk_waits_unless_it_is_due() -> None:
    lanes = lanes_of(BatchLimit(10), [bulk(10), bulk(10)])
    assert not lanes.take(0, Slots(1, hold_bulk=True)).entries
    for _ in range(BULK_TURN):
        lanes.add(entry(10, arrived=1))
    took = [lanes.take(1, Slots(1, hold_bulk=True)).entries[0].priority for _ in range(BULK_TURN)]
    assert took == ["interactive"] * (BULK_TURN - 1) + ["bulk"]


def test_each_priority_has_its_own_slots() -> None:
    lanes = lanes_of(BatchLimit(10), [bulk(10), entry(10)])
    assert not lanes.take(0, Slots(0, 0)).entries
    only_bulk = lanes_of(BatchLimit(10), [bulk(10)])
    assert not only_bulk.take(0, Slots(1, 0)).entries
    assert lanes.take(0, Slots(1, 0)).entries[0].priority == "interactive"
