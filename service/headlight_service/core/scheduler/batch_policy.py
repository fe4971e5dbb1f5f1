"""The batch policy: which lane gives the next batch, how large it may be, and which slot it gets.

Plain data: no threads, no clock (`now` is passed in).

    interactive  embed  attend    oldest head first                 whole budget
    bulk         embed  attend    where nothing interactive waits,  about `bulk_seconds` of work
                                  and every BULK_TURN-th batch

Where both are, an interactive batch does not wait for one of bulk, but shares the processor with it until it has ended: a bulk batch is
therefore kept short. Batches are of one priority: company from bulk would lengthen the wait of an interactive item by its own work,
and costs no less there than in a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from headlight.spec import PRIORITIES, Priority
from headlight_service.core.scheduler.bulk_batch_size import Pace
from headlight_service.core.scheduler.lanes import Batch, Budget, Entry, Lane, LaneKey

T = TypeVar("T")
# Where both wait, one batch in so many is bulk's. Of batches and not of age: under a flood the head of bulk is always old.
BULK_TURN = 8
# Padded tokens. Where several streams are idle, what waits is split over them, as each batch has a stream's threads alone: two halves
# at once take half as long. Smaller parts than this are not made: what every batch costs, and what small products lose, would eat it.
LEAST_SPLIT_TOKENS = 128


class Started(NamedTuple):
    """A batch that was given a slot."""

    priority: Priority
    wide: bool  # on all threads; until it is done no bulk is begun


class ExecutionSlots:
    """Which execution slots are busy, and with what.

    Interactive has all slots, bulk those that it leaves: an interactive batch does not wait for one
    of bulk, which ends beside it. The only interactive batch gets all threads, and no bulk is begun
    until it is done: else a long text would take twice as long beside a flood of bulk.

    Attributes:
        hold_bulk: whether no batch of bulk should be begun now. No two batches are wide at once.
        running: how many batches run.
    """

    def __init__(self, count: int) -> None:
        """All are idle; so many batches of a priority may run at once."""
        self._count = count
        self._running: dict[Priority, int] = {"interactive": 0, "bulk": 0}
        self.running = 0
        self.hold_bulk = False

    def idle(self, priority: Priority) -> int:
        """Return how many batches of a priority could be begun."""
        free = self._count - self._running["interactive"]
        return free if priority == "interactive" else max(0, free - self._running["bulk"])

    def begin(self, priority: Priority, interactive: int, can_be_wide: bool) -> Started:
        """Give a slot to a batch.

        Args:
            priority: its own.
            interactive: interactive items that are left in the queue.
            can_be_wide: whether there is a session that gives it all threads.
        """
        others = self._running["interactive"] or interactive
        started = Started(priority, can_be_wide and priority == "interactive" and not others)
        self._running[priority] += 1
        self.running += 1
        self.hold_bulk = self.hold_bulk or started.wide
        return started

    def end(self, started: Started) -> None:
        """Take the slot back."""
        self._running[started.priority] -= 1
        self.running -= 1
        self.hold_bulk = self.hold_bulk and not started.wide


IDLE = ExecutionSlots(1)  # which nothing ever takes


class Lanes(Generic[T]):
    """All lanes of a process.

    Attributes:
        waiting: items of each priority.
    """

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
        self.waiting: dict[Priority, int] = dict.fromkeys(PRIORITIES, 0)

    def add(self, *entries: Entry[T]) -> None:
        """Queue an item in its lane, or all of one request, from the longest."""
        first = entries[0]
        self._lanes[first.priority][first.lane].add(*entries)
        self.waiting[first.priority] += len(entries)

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False: it is not waiting (any more)."""
        found = self._lanes[entry.priority][entry.lane].discard(entry)
        self.waiting[entry.priority] -= found
        return found

    def ran(self, batch: Batch[T], seconds: float) -> None:
        """Learn how long processors worked on a batch of bulk.

        A lone interactive text would say that the engine is slow.
        """
        first = batch.entries[0]
        if first.priority == "bulk":
            self._paces[first.lane].learn(len(batch.entries), batch.longest, seconds)

    def ready(self, priority: Priority, slots: ExecutionSlots = IDLE) -> bool:
        """Return whether a batch of a priority can be begun.

        Args:
            priority: its own.
            slots: which are idle, and whether bulk is held back unless it is its turn.
        """
        waiting = self.waiting
        if not waiting[priority] or not slots.idle(priority):
            return False
        in_turn = priority == "interactive" or self._overtaken >= BULK_TURN - 1
        return in_turn or not (waiting["interactive"] or slots.hold_bulk)

    def fills_batch(self, priority: Priority) -> bool:
        """Return whether as much waits as one batch can hold."""
        return any(lane.waiting >= self._budgets[key].tokens for key, lane in self._lanes[priority].items())

    def take(self, now: float, slots: ExecutionSlots = IDLE, only: Priority | None = None) -> Batch[T]:
        """Remove and return the next batch; empty: nothing can be begun, or all that was looked at had expired.

        Args:
            now: seconds, on the clock of the entries.
            slots: as for `ready`.
            only: the priority that is wanted; None: bulk in its turn, else interactive first.
        """
        unused = slots.idle("bulk")
        wanted: tuple[Priority, ...] = ("bulk", "interactive") if only is None else (only,)
        priority = next((each for each in wanted if self.ready(each, slots)), None)
        if priority is None:
            return Batch()
        key, lane = self._next(priority)
        budget = self._budgets[key]
        if priority == "bulk":
            budget = self._paces[key].limit(budget, self._bulk_seconds)
        if unused > 1:
            share = math.ceil(lane.waiting / unused)
            budget = budget.within(max(share, LEAST_SPLIT_TOKENS))
        batch = lane.take(now, budget)
        self.waiting[priority] -= len(batch.entries) + len(batch.expired)
        if batch.entries:
            overtakes = priority == "interactive" and self.waiting["bulk"]
            self._overtaken = self._overtaken + 1 if overtakes else 0
        return batch

    def _next(self, priority: Priority) -> tuple[LaneKey, Lane[T]]:
        """The lane of those with items whose first has waited longest."""
        found = [each for each in self._lanes[priority].items() if each[1].count]
        return found[0] if len(found) == 1 else min(found, key=lambda each: each[1].oldest.arrived)
