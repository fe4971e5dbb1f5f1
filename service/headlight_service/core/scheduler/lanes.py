"""Lanes (queues of waiting items from which batches are taken), and the limit of a batch.

A lane holds the items of one priority that one graph of one model can serve together.
`headlight_service.core.scheduler.batch_policy` chooses between lanes. A batch starts from the
oldest item of the lane's next flow, so nothing starves. It grows by items of the nearest lengths,
so little is padding. The cost to add, discard and take does not depend on the number of waiting
items. Items of one size are taken together, for little more than one item costs.

Plain data: no event loop, no clock (`now` is passed in).
"""

from __future__ import annotations

import bisect
import dataclasses
import heapq
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from headlight.runtime.values import GraphRole
from headlight.spec import Priority

T = TypeVar("T")


class LaneKey(NamedTuple):
    """Key of a lane: its items need the same graph, and can share a batch."""

    model: str  # key of a model version, unique in the process; see `ServedModel.key`
    role: GraphRole


@dataclasses.dataclass(frozen=True, slots=True)
class BatchLimit:
    """Cost limit of one batch. A single item may exceed it: it then runs alone.

    Attributes:
        tokens: padded tokens, count × longest: limits costs that are linear in the length.
        squares: count × longest²: limits the returned attention maps; None: none are returned.
        max_padding: the share of padded tokens that may be padding, 0 to 1.
    """

    tokens: int
    squares: int | None = None
    max_padding: float = 1.0

    def within(self, tokens: int, squares: int | None = None) -> BatchLimit:
        """Return this limit with at most so many tokens, and so many squares."""
        squares = min(
            (bound for bound in (self.squares, squares) if bound is not None), default=None
        )
        return BatchLimit(min(self.tokens, tokens), squares, self.max_padding)

    def admits(self, count: int, longest: int, total: int) -> bool:
        """Return whether `count` items of `total` tokens, padded to `longest`, may be one batch."""
        padded = count * longest
        if padded > self.tokens or (self.squares is not None and padded * longest > self.squares):
            return False
        return padded - total <= self.max_padding * padded

    def room(self, count: int, longest: int, total: int, size: int, more: int) -> int:
        """Return how many of `more` items of one size may join a batch; see `admits`."""
        longest = max(longest, size)
        if not self.admits(count + 1, longest, total + size):
            return 0
        # All costs grow monotonically: if the first and the last fit, so do those in between.
        if more == 1 or self.admits(count + more, longest, total + more * size):
            return more
        return bisect.bisect_left(
            range(1, more),
            True,
            key=lambda more: not self.admits(count + more, longest, total + more * size),
        )


@dataclasses.dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """An item in the queue. Compared by identity."""

    lane: LaneKey
    value: T
    length: int  # tokens
    size: int  # tokens that it takes alone: its length, rounded as batches are
    arrived: float  # seconds on the caller's monotonic clock
    deadline: float  # on the same clock; infinity for none
    priority: Priority = "interactive"
    flow: str = ""
    waiting: bool = dataclasses.field(default=False, init=False)  # in its lane


@dataclasses.dataclass(slots=True)
class Batch(Generic[T]):
    """The items that `take` took from one lane.

    Attributes:
        entries: items to run together, the oldest first.
        expired: items whose deadline had passed.
        charged: slot seconds that its model's share was charged when it began.
    """

    entries: list[Entry[T]] = dataclasses.field(default_factory=list)
    expired: list[Entry[T]] = dataclasses.field(default_factory=list)
    longest: int = 0  # tokens that each item is padded to
    sizes: int = 0  # tokens that the items would take alone
    total: int = 0  # tokens, padding excluded
    charged: float = 0.0

    @property
    def padded(self) -> int:
        """Tokens, padding included."""
        return len(self.entries) * self.longest

    def add(self, entries: list[Entry[T]]) -> None:
        """Add items of one size."""
        if entries:
            self.entries += entries
            self.longest = max(self.longest, entries[0].size)
            self.sizes += entries[0].size * len(entries)
            self.total += sum([entry.length for entry in entries])


class Lane(Generic[T]):
    """The waiting items of one graph and one priority, in flows that take turns.

    Each batch begins with the oldest item of the next flow. Usually there is one flow, and so order
    of arrival.

    Attributes:
        count: number of items.
        waiting: tokens that they would take alone.
    """

    def __init__(self) -> None:
        self.count = self.waiting = 0
        self._flows = OrderedDict[str, _Flow[T]]()  # the next one first

    @property
    def oldest(self) -> Entry[T]:
        """The item that the next batch begins with. The lane must not be empty."""
        return next(iter(self._flows.values())).oldest

    def add(self, *entries: Entry[T]) -> None:
        """Queue items of one flow behind its others."""
        name = entries[0].flow
        flow = self._flows.get(name)
        if flow is None:
            flow = self._flows[name] = _Flow()
        flow.add(entries)
        self.count += len(entries)
        self.waiting += sum([entry.size for entry in entries])

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item, and return whether it was waiting here."""
        if not entry.waiting:
            return False
        flow = self._flows[entry.flow]
        flow.remove([entry])
        self.count -= 1
        self.waiting -= entry.size
        if not flow.sizes:
            del self._flows[entry.flow]
        return True

    def take(self, now: float, limit: BatchLimit) -> Batch[T]:
        """Remove and return the next batch: the oldest item of a flow and items of near sizes.

        The rest of the batch is filled from the flows whose turn is next.
        """
        batch: Batch[T] = Batch()
        for name in list(self._flows):
            if batch.entries and not limit.room(
                len(batch.entries), batch.longest, batch.sizes, batch.longest, 1
            ):
                break
            flow, first = self._flows[name], not batch.entries
            flow.fill(batch, now, limit)
            if not flow.sizes:
                del self._flows[name]
            elif first and batch.entries:  # the others have had less than their turn
                self._flows.move_to_end(name)
        gone = batch.entries + batch.expired
        self.count -= len(gone)
        self.waiting -= sum([entry.size for entry in gone])
        return batch


class _Flow(Generic[T]):
    """Waiting items by age and by size.

    Ordered dictionaries instead of deques, so that an item whose client disconnected is removed at
    once from any place.

    Attributes:
        sizes: the items of each size, by age; empty: none waits.
    """

    def __init__(self) -> None:
        self.sizes = defaultdict[int, OrderedDict[Entry[T], None]](OrderedDict)
        self._by_age = OrderedDict[Entry[T], None]()

    @property
    def oldest(self) -> Entry[T]:
        """The item that has waited longest."""
        return next(iter(self._by_age))

    def add(self, entries: Sequence[Entry[T]]) -> None:
        """Queue items behind all others."""
        for entry in entries:
            self._by_age[entry] = self.sizes[entry.size][entry] = None
            entry.waiting = True

    def remove(self, entries: Sequence[Entry[T]]) -> None:
        """Remove items of one size."""
        size = entries[0].size
        bucket = self.sizes[size]
        for entry in entries:
            del self._by_age[entry], bucket[entry]
            entry.waiting = False
        if not bucket:
            del self.sizes[size]

    def fill(self, batch: Batch[T], now: float, limit: BatchLimit) -> None:
        """Move items to a batch: to an empty one the oldest, and then those of near sizes.

        Sizes are tried outward from the longest item's. A side ends at the first size that does not
        fit: the sizes beyond would need still more room or more padding.
        """
        while self.sizes and not batch.entries:
            self._move([self.oldest], batch, now)
        centre = batch.longest
        sizes = sorted(self.sizes)
        at = bisect.bisect_left(sizes, centre)
        open_sides = {"above", "below"}
        below = reversed(sizes[:at])
        for size in heapq.merge(sizes[at:], below, key=lambda size: abs(size - centre)):
            side = "above" if size >= centre else "below"
            if side in open_sides and not self._fill(size, batch, now, limit):
                open_sides.discard(side)
            if not open_sides:
                break

    def _fill(self, size: int, batch: Batch[T], now: float, limit: BatchLimit) -> bool:
        """Move items of one size to the batch, oldest first, while they fit; True: none is left."""
        bucket = self.sizes[size]
        while bucket:
            count = len(batch.entries)
            room = limit.room(count, batch.longest, batch.sizes, size, len(bucket))
            if not room:
                return False
            self._move(list(itertools.islice(bucket, room)), batch, now)
        return True

    def _move(self, entries: list[Entry[T]], batch: Batch[T], now: float) -> None:
        """Move items of one size to the batch."""
        self.remove(entries)
        batch.expired += [entry for entry in entries if entry.deadline <= now]
        batch.add([entry for entry in entries if entry.deadline > now])
