from __future__ import annotations

import math
from collections.abc import Sequence

from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import BULK_TURN, LEAST_SPLIT_TOKENS, LaneSet
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, Entry, LaneKey
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


def lengths_of(batch: Batch[int]) -> list[int]:
    return [each.length for each in batch.entries]


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


def test_discarding_is_idempotent_and_immediate() -> None:
    lanes: LaneSet[int] = LaneSet({EMBED: BatchLimit(100)})
    gone, stays = entry(5), entry(5)
    lanes.add(gone)
    lanes.add(stays)
    assert lanes.discard(gone)
    assert not lanes.discard(gone)
    assert lanes.take(0).entries == [stays]


def test_interactive_goes_before_bulk_and_shares_no_batch_with_it() -> None:
    lanes = lanes_of(BatchLimit(1000), [bulk(5), bulk(5), entry(5, arrived=9), entry(5, arrived=9)])
    assert [each.priority for each in lanes.take(9).entries] == ["interactive", "interactive"]
    assert [each.priority for each in lanes.take(9).entries] == ["bulk", "bulk"]


def test_interactive_goes_before_bulk_of_another_graph() -> None:
    late = entry(5, arrived=9, lane=ATTEND)
    lanes = lanes_of(BatchLimit(1000), [bulk(5), late])
    assert lanes.take(9).entries == [late]


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


def test_an_interactive_item_waits_only_for_running_bulk_batches() -> None:
    lanes = lanes_of(BatchLimit(10), [bulk(5) for _ in range(1000)])
    for now in range(100):
        assert lanes.take(now).entries[0].priority == "bulk"
        lanes.add(entry(5, arrived=now))
        assert lanes.take(now).entries[0].priority == "interactive"


def test_bulk_batches_are_sized_to_the_target_time() -> None:
    lanes = lanes_of(BatchLimit(10**6), [bulk(10) for _ in range(200)], bulk_seconds=0.1)
    counts = []
    for _ in range(12):
        batch = lanes.take(0)
        counts.append(len(batch.entries))
        # The fixed cost of a batch, and the cost of its tokens.
        lanes.ran(batch, 0.01 + batch.padded / RATE)
    assert counts[0] == 1, "nothing is known yet"
    assert 0.01 + counts[-1] * 10 / RATE <= 0.1 <= 0.01 + (counts[-1] + 2) * 10 / RATE
    lanes.add(bulk(5000))
    assert lengths_of(lanes_of(BatchLimit(100), [bulk(5000)], 0.1).take(0)) == [5000], (
        "alone, where it is longer than that"
    )


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


def test_waiting_items_are_split_evenly_over_idle_slots() -> None:
    lanes = lanes_of(BatchLimit(1024), [entry(53) for _ in range(32)])
    assert len(lanes.take(0, Slots(2)).entries) == 16
    assert len(lanes.take(0, Slots(1)).entries) == 16


def test_a_busy_service_does_not_split_and_small_work_stays_together() -> None:
    entries = [entry(32) for _ in range(16)]
    assert len(lanes_of(BatchLimit(1024), entries).take(0, Slots(1)).entries) == 16
    few = [entry(LEAST_SPLIT_TOKENS // 4) for _ in range(4)]
    assert len(lanes_of(BatchLimit(1024), few).take(0, Slots(2)).entries) == 4
    uneven = [entry(LEAST_SPLIT_TOKENS // 4) for _ in range(7)]
    assert len(lanes_of(BatchLimit(1024), uneven).take(0, Slots(2)).entries) == 7


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


def test_interactive_items_are_split_over_idle_slots_only() -> None:
    entries = [entry(53) for _ in range(32)]
    beside = Slots(2, 0)
    assert len(lanes_of(BatchLimit(2048), entries).take(0, beside).entries) == 32, (
        "bulk has both, and ends beside it"
    )
    assert len(lanes_of(BatchLimit(2048), entries).take(0, Slots(2)).entries) == 16
