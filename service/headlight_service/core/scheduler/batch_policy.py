"""Batch policy: the lane of the next batch, the batch's size, and its execution slot.

Plain data: no threads, no clock (`now` is passed in).

    interactive  embed  attend    oldest head first                 the lane's batch limit
    bulk         embed  attend    if nothing interactive waits,     about `bulk_seconds` of work
                                  and every BULK_TURN-th batch

Several models have their fair shares of each priority; see
`headlight_service.core.scheduler.fair_shares`. Oldest head first holds within one model.

An interactive batch does not wait for a running bulk batch, but shares the processor with it. A
bulk batch is therefore kept short. Batches are of one priority: bulk items in an interactive batch
would lengthen its wait by their work. They cost no less there than in a batch of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from headlight.spec import PRIORITIES, Priority
from headlight_service.core.scheduler.bulk_batch_size import BulkBatchSize
from headlight_service.core.scheduler.fair_shares import FairShares
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, Entry, Lane, LaneKey

T = TypeVar("T")
# If both wait, one batch in so many is bulk's. Batches are counted, and age is ignored: under a
# flood the head of bulk is always old.
BULK_TURN = 8
# Padded tokens. If several slots are idle, waiting work is split over them, because each batch has
# only its slot's threads: two halves at once take half as long. Smaller parts are not made: the
# fixed cost of a batch, and the inefficiency of small matrix products, would outweigh the gain.
LEAST_SPLIT_TOKENS = 128


class TakenSlot(NamedTuple):
    """An execution slot that a batch has taken."""

    priority: Priority
    wide: bool  # exclusive: uses all threads; bulk is held until it is done


class ExecutionSlots:
    """The busy execution slots, and their batches.

    Interactive may use all slots, bulk those that are left: an interactive batch does not wait for
    a running bulk batch, which finishes at the same time. A lone interactive batch is exclusive: it
    uses all threads. Until it is done, bulk begins only in its turn: else a long text would take
    twice as long during a flood of bulk.

    Attributes:
        count: batches of a priority that may run at once.
        hold_bulk: whether bulk may begin only in its turn. No two batches are exclusive at once.
        running: number of running batches.
    """

    def __init__(self, count: int) -> None:
        """Start with all slots idle; so many batches of a priority may run at once."""
        self.count = count
        self._running: dict[Priority, int] = {"interactive": 0, "bulk": 0}
        self.running = 0
        self.hold_bulk = False

    def idle(self, priority: Priority) -> int:
        """Return the number of batches of a priority that could begin."""
        free = self.count - self._running["interactive"]
        return free if priority == "interactive" else max(0, free - self._running["bulk"])

    def begin(self, priority: Priority, interactive: int, can_be_wide: bool) -> TakenSlot:
        """Give a slot to a batch.

        Args:
            priority: priority of the batch.
            interactive: interactive items left in the queue.
            can_be_wide: whether there is a session that uses all threads.
        """
        others = self._running["interactive"] or interactive
        slot = TakenSlot(priority, can_be_wide and priority == "interactive" and not others)
        self._running[priority] += 1
        self.running += 1
        self.hold_bulk = self.hold_bulk or slot.wide
        return slot

    def end(self, slot: TakenSlot) -> None:
        """Free the slot."""
        self._running[slot.priority] -= 1
        self.running -= 1
        self.hold_bulk = self.hold_bulk and not slot.wide


IDLE = ExecutionSlots(1)  # never taken


class LaneSet(Generic[T]):
    """All lanes of a queue.

    Attributes:
        limits: batch limit of each lane.
        waiting: items of each priority.
    """

    def __init__(
        self, limits: Mapping[LaneKey, BatchLimit] | None = None, *, bulk_seconds: float = math.inf
    ) -> None:
        """Start with empty lanes.

        Args:
            limits: batch limit of each lane; None: lanes are opened later.
            bulk_seconds: most seconds of a bulk batch, as far as its items can be divided.
        """
        self.limits = dict[LaneKey, BatchLimit]()
        self._bulk_seconds = bulk_seconds
        self._lanes: dict[Priority, dict[LaneKey, Lane[T]]] = {each: {} for each in PRIORITIES}
        self._bulk_sizes = dict[LaneKey, BulkBatchSize]()
        self._shares: dict[Priority, FairShares] = {each: FairShares() for each in PRIORITIES}
        self._overtaken = 0  # interactive batches in a row while bulk waited
        self.waiting: dict[Priority, int] = dict.fromkeys(PRIORITIES, 0)
        for key, limit in (limits or {}).items():
            self.open(key, limit)

    def open(self, key: LaneKey, limit: BatchLimit, weight: float = 1.0) -> None:
        """Add a lane of each priority, with a batch limit and the weight of its model."""
        self.limits[key], self._bulk_sizes[key] = limit, BulkBatchSize()
        for priority, lanes in self._lanes.items():
            lanes[key] = Lane()
            self._shares[priority].open(key.model, weight)

    def close(self, model: str) -> None:
        """Drop the lanes of a model. They must be empty."""
        for key in [each for each in self.limits if each.model == model]:
            del self.limits[key], self._bulk_sizes[key]
            for lanes in self._lanes.values():
                del lanes[key]
        for shares in self._shares.values():
            shares.close(model)

    def add(self, *entries: Entry[T]) -> None:
        """Queue an item in its lane, or all items of one request, the longest first."""
        first = entries[0]
        self._lanes[first.priority][first.lane].add(*entries)
        self._count(first.priority, first.lane, len(entries))

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item, and return whether it was waiting."""
        removed = self._lanes[entry.priority][entry.lane].discard(entry)
        if removed:
            self._count(entry.priority, entry.lane, -1)
        return removed

    def _count(self, priority: Priority, key: LaneKey, items: int) -> None:
        self.waiting[priority] += items
        self._shares[priority].wait(key.model, items)

    def ended(self, batch: Batch[T], seconds: float) -> None:
        """Charge a batch to its model's share: it had a slot for so many seconds."""
        first = batch.entries[0]
        shares = self._shares[first.priority]
        shares.end(first.lane.model, batch.padded, seconds, batch.charged)

    def ran(self, batch: Batch[T], seconds: float) -> None:
        """Learn the CPU time of a bulk batch.

        Interactive batches are ignored: a lone text would make the engine look slow.
        """
        first = batch.entries[0]
        if first.priority == "bulk":
            self._bulk_sizes[first.lane].learn(len(batch.entries), batch.longest, seconds)

    def ready(self, priority: Priority, slots: ExecutionSlots = IDLE) -> bool:
        """Return whether a batch of a priority can begin.

        Args:
            priority: priority of the batch.
            slots: the idle slots, and whether bulk may begin only in its turn.
        """
        waiting = self.waiting
        if not waiting[priority] or not slots.idle(priority):
            return False
        in_turn = priority == "interactive" or self._overtaken >= BULK_TURN - 1
        return in_turn or not (waiting["interactive"] or slots.hold_bulk)

    def take(
        self, now: float, slots: ExecutionSlots = IDLE, only: Priority | None = None
    ) -> Batch[T]:
        """Remove and return the next batch; empty: none can begin, or all its items had expired.

        Args:
            now: seconds, on the clock of the entries.
            slots: as for `ready`.
            only: the priority to take; None: bulk in its turn, else interactive first.
        """
        unused = slots.idle("bulk")
        priorities: tuple[Priority, ...] = ("bulk", "interactive") if only is None else (only,)
        priority = next((each for each in priorities if self.ready(each, slots)), None)
        if priority is None:
            return Batch()
        key, lane = self._next(priority)
        limit = self.limits[key]
        if priority == "bulk":
            limit = self._bulk_sizes[key].limit(limit, self._bulk_seconds)
        if (parts := min(unused, lane.waiting // LEAST_SPLIT_TOKENS)) > 1:
            limit = limit.within(math.ceil(lane.waiting / parts))
        batch = lane.take(now, limit)
        self._count(priority, key, -len(batch.entries) - len(batch.expired))
        if batch.entries:
            batch.charged = self._shares[priority].begin(key.model, batch.padded)
            overtakes = priority == "interactive" and self.waiting["bulk"]
            self._overtaken = self._overtaken + 1 if overtakes else 0
        return batch

    def _next(self, priority: Priority) -> tuple[LaneKey, Lane[T]]:
        """Return the lane with the oldest item, of the model whose turn it is."""
        waiting = [each for each in self._lanes[priority].items() if each[1].count]
        if len(waiting) == 1:
            return waiting[0]
        virtual = self._shares[priority].virtual
        return min(waiting, key=lambda each: (virtual(each[0].model), each[1].oldest.arrived))
