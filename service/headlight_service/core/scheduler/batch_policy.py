"""The batch policy: which lane gives the next batch, and how large it may be. Plain data: no event loop, no clock.

    interactive  embed  attend    oldest head first                 whole budget
    bulk         embed  attend    where nothing interactive waits,  about `bulk_seconds` of work
                                  and every BULK_TURN-th batch

Where both are, an interactive batch does not wait for one of bulk, but shares the processor with it until it has ended: a bulk batch is
therefore kept short. Batches are of one priority: company from bulk would lengthen the wait of an interactive item by its own work,
and costs no less there than in a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from headlight.wire.priority import PRIORITIES, Priority
from headlight_service.core.scheduler.bulk_batch_size import Pace
from headlight_service.core.scheduler.lanes import Batch, Budget, Entry, Lane, LaneKey

T = TypeVar("T")
# Where both wait, one batch in so many is bulk's. Of batches and not of age: under a flood the head of bulk is always old.
BULK_TURN = 8
# Padded tokens. Where several streams are idle, what waits is split over them, as each batch has a stream's threads alone: two halves
# at once take half as long. Smaller parts than this are not made: what every batch costs, and what small products lose, would eat it.
LEAST_SPLIT_TOKENS = 128


class Candidate(NamedTuple, Generic[T]):
    """A lane that could give the next batch."""

    key: LaneKey
    lane: Lane[T]


class Lanes(Generic[T]):
    """All lanes of a process."""

    def __init__(self, budgets: Mapping[LaneKey, Budget], *, bulk_seconds: float = math.inf) -> None:
        """Nothing waits.

        Args:
            budgets: of the graphs.
            bulk_seconds: that a batch of bulk should take at most, as far as its items can be divided.
        """
        self._budgets = dict(budgets)
        self._bulk_seconds = bulk_seconds
        self._lanes: dict[Priority, dict[LaneKey, Lane[T]]] = {
            priority: {key: Lane() for key in budgets} for priority in PRIORITIES
        }
        self._paces = {key: Pace() for key in budgets}
        self._overtaken = 0  # interactive batches in a row while bulk waited

    def __len__(self) -> int:
        return sum(map(self.waiting, PRIORITIES))

    def add(self, *entries: Entry[T]) -> None:
        """Queue an item in its lane, or all of one request, from the longest."""
        self._lanes[entries[0].priority][entries[0].lane].add(*entries)

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False where it is not waiting (any more)."""
        return self._lanes[entry.priority][entry.lane].discard(entry)

    def ran(self, batch: Batch[T], seconds: float) -> None:
        """Learn how long processors worked on a batch."""
        first = batch.entries[0]
        if first.priority == "bulk":  # a lone interactive text would say that the engine is slow
            self._paces[first.lane].learn(len(batch.entries), batch.longest, seconds)

    def waiting(self, priority: Priority) -> int:
        """Items of a priority."""
        return sum(map(len, self._lanes[priority].values()))

    def take(self, now: float, idle: Callable[[Priority], int] = lambda _: 1, *, hold_bulk: bool = False) -> Batch[T]:
        """Remove and return the next batch; empty where nothing waits, or where all that was looked at had expired.

        Args:
            now: seconds, on the clock of the entries.
            idle: how many batches of a priority could be begun, this one included.
            hold_bulk: leave bulk where it is, unless it is its turn.
        """
        interactive, bulk = self._next("interactive"), self._next("bulk")
        its_turn = self._overtaken >= BULK_TURN - 1
        unused = idle("bulk")
        if bulk is not None and unused and (its_turn or (interactive is None and not hold_bulk)):
            budget = self._paces[bulk.key].limit(self._budgets[bulk.key], self._bulk_seconds)
            return self._taken(bulk, budget, now, unused, overtaken=0)
        if interactive is None or not idle("interactive"):
            return Batch()
        overtaken = 0 if bulk is None else self._overtaken + 1
        return self._taken(interactive, self._budgets[interactive.key], now, unused, overtaken)

    def _next(self, priority: Priority) -> Candidate[T] | None:
        """The lane whose head has waited longest."""
        heads = [
            (head.arrived, Candidate(key, lane))
            for key, lane in self._lanes[priority].items()
            if (head := lane.oldest) is not None
        ]
        return min(heads, key=lambda pair: pair[0])[1] if heads else None

    def _taken(self, chosen: Candidate[T], budget: Budget, now: float, unused: int, overtaken: int) -> Batch[T]:
        if unused > 1:
            share = math.ceil(chosen.lane.waiting / unused)
            budget = budget.within(max(share, LEAST_SPLIT_TOKENS))
        batch = chosen.lane.take(now, budget)
        if batch.entries:
            self._overtaken = overtaken
        return batch
