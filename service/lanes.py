"""One queue: which of its waiting items run next, together. Plain data: no event loop, no clock (`now` is passed in).

A lane holds the items of one priority that one graph of one model can serve together (`service.policy` chooses between
lanes). A batch starts from the lane's oldest item, so nothing starves, and grows by items of the nearest lengths, so little is
padding. Adding, discarding and taking cost the same however many items wait.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from headlight.priority import Priority
from headlight.runtime.values import Role

T = TypeVar("T")


class LaneKey(NamedTuple):
    """Items of one lane can share a batch: they need the same graph."""

    model: str
    role: Role


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """What one batch may cost. A single item may exceed it: it then runs alone.

    Attributes:
        tokens: padded tokens, count × longest: bounds time and memory of everything linear in the length.
        squares: count × longest²: bounds the attention maps that a batch returns. None where none are returned.
        max_padding: the share of padded tokens that may be padding, 0 to 1.
    """

    tokens: int
    squares: int | None = None
    max_padding: float = 1.0

    def within(self, tokens: int, squares: int | None = None) -> Budget:
        """The same, and no more than so many tokens, and so many squares."""
        squares = min((bound for bound in (self.squares, squares) if bound is not None), default=None)
        return Budget(min(self.tokens, tokens), squares, self.max_padding)

    def admits(self, count: int, longest: int, total: int) -> bool:
        """Whether `count` items that alone take `total` tokens may be one batch, each padded to `longest`."""
        padded = count * longest
        if padded > self.tokens or (self.squares is not None and padded * longest > self.squares):
            return False
        return padded - total <= self.max_padding * padded


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


@dataclasses.dataclass(slots=True)
class Batch(Generic[T]):
    """What `take` took from one lane: entries to run together, oldest first, and entries whose deadline had passed."""

    entries: list[Entry[T]] = dataclasses.field(default_factory=list)
    expired: list[Entry[T]] = dataclasses.field(default_factory=list)
    longest: int = 0  # tokens that each item is padded to
    sizes: int = 0  # tokens that the items would take alone

    @property
    def total(self) -> int:
        """Tokens, padding excluded."""
        return sum(entry.length for entry in self.entries)

    @property
    def padded(self) -> int:
        """Tokens, padding included."""
        return len(self.entries) * self.longest

    def add(self, entry: Entry[T]) -> None:
        self.entries.append(entry)
        self.longest = max(self.longest, entry.size)
        self.sizes += entry.size

    def has_room(self, budget: Budget, size: int) -> bool:
        """Whether an item of this size may join."""
        return budget.admits(len(self.entries) + 1, max(self.longest, size), self.sizes + size)


class Lane(Generic[T]):
    """The waiting items of one graph and one priority, by age and by size.

    Ordered dictionaries rather than deques, so that an item whose caller has gone leaves at once, wherever it stands.

    Attributes:
        waiting: tokens that the items would take alone.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._by_age: OrderedDict[Entry[T], None] = OrderedDict()
        self._by_size: dict[int, OrderedDict[Entry[T], None]] = {}
        self._sizes: list[int] = []  # the keys of _by_size, sorted

    def __len__(self) -> int:
        return len(self._by_age)

    @property
    def oldest(self) -> Entry[T] | None:
        """The item that has waited longest."""
        return next(iter(self._by_age), None)

    def add(self, entry: Entry[T]) -> None:
        """Queue an item behind all others."""
        self._by_age[entry] = None
        self.waiting += entry.size
        bucket = self._by_size.get(entry.size)
        if bucket is None:
            bucket = self._by_size[entry.size] = OrderedDict()
            bisect.insort(self._sizes, entry.size)
        bucket[entry] = None

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False where it is not waiting here (any more)."""
        if entry not in self._by_age:
            return False
        del self._by_age[entry]
        self.waiting -= entry.size
        bucket = self._by_size[entry.size]
        del bucket[entry]
        if not bucket:
            del self._by_size[entry.size]
            del self._sizes[bisect.bisect_left(self._sizes, entry.size)]
        return True

    def take(self, now: float, budget: Budget) -> Batch[T]:
        """Remove and return the next batch: the oldest item and what goes well with it. Empty where nothing waits."""
        batch: Batch[T] = Batch()
        while (seed := self.oldest) is not None and not batch.entries:
            self._move(seed, batch, now)
        if batch.entries:
            self._grow(batch, now, budget)
        return batch

    def _grow(self, batch: Batch[T], now: float, budget: Budget) -> None:
        """Fill from the buckets outward from the seed's size.

        A side ends at the first size that does not fit: those behind it would need more room still, or more padding.
        """
        centre = batch.longest
        sizes = self._sizes.copy()  # emptied buckets leave the original while we walk
        above = bisect.bisect_left(sizes, centre)
        below = above - 1
        while below >= 0 or above < len(sizes):
            upward = below < 0 or (above < len(sizes) and sizes[above] - centre <= centre - sizes[below])
            emptied = self._fill(sizes[above if upward else below], batch, now, budget)
            if upward:
                above = above + 1 if emptied else len(sizes)
            else:
                below = below - 1 if emptied else -1

    def _fill(self, size: int, batch: Batch[T], now: float, budget: Budget) -> bool:
        """Move entries of one size to the batch, oldest first, while they fit; True where none is left."""
        while (bucket := self._by_size.get(size)) is not None:
            if not batch.has_room(budget, size):
                return False
            self._move(next(iter(bucket)), batch, now)
        return True

    def _move(self, entry: Entry[T], batch: Batch[T], now: float) -> None:
        self.discard(entry)
        if entry.deadline <= now:
            batch.expired.append(entry)
        else:
            batch.add(entry)
