"""The batch policy: which waiting items run next, together. Plain data: no event loop, no clock (`now` is passed in).

A lane holds the items that one graph of one model can serve together. A batch starts from the lane's oldest item, so
nothing starves, and grows by items of the nearest lengths, so little is padding. Adding, discarding and taking cost the
same however many items wait.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

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

    def admits(self, count: int, longest: int, total: int) -> bool:
        """Whether `count` items of `total` tokens, padded to `longest`, may be one batch."""
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
    arrived: float  # seconds on the caller's monotonic clock
    deadline: float  # on the same clock; infinity for none


@dataclasses.dataclass(slots=True)
class Batch(Generic[T]):
    """What `take` took from one lane: entries to run together, oldest first, and entries whose deadline had passed."""

    entries: list[Entry[T]] = dataclasses.field(default_factory=list)
    expired: list[Entry[T]] = dataclasses.field(default_factory=list)
    longest: int = 0  # tokens
    total: int = 0  # tokens, padding excluded

    def add(self, entry: Entry[T]) -> None:
        self.entries.append(entry)
        self.longest = max(self.longest, entry.length)
        self.total += entry.length

    def has_room(self, budget: Budget, length: int) -> bool:
        """Whether an item of this length may join."""
        return budget.admits(len(self.entries) + 1, max(self.longest, length), self.total + length)


class Lane(Generic[T]):
    """The waiting items of one graph, by age and by length.

    Ordered dictionaries rather than deques, so that an item whose caller has gone leaves at once, wherever it stands.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_age: OrderedDict[Entry[T], None] = OrderedDict()
        self._by_length: dict[int, OrderedDict[Entry[T], None]] = {}
        self._lengths: list[int] = []  # the keys of _by_length, sorted

    def __len__(self) -> int:
        return len(self._by_age)

    @property
    def oldest(self) -> Entry[T] | None:
        """The item that has waited longest."""
        return next(iter(self._by_age), None)

    def add(self, entry: Entry[T]) -> None:
        """Queue an item behind all others."""
        self._by_age[entry] = None
        bucket = self._by_length.get(entry.length)
        if bucket is None:
            bucket = self._by_length[entry.length] = OrderedDict()
            bisect.insort(self._lengths, entry.length)
        bucket[entry] = None

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False where it is not waiting here (any more)."""
        if entry not in self._by_age:
            return False
        del self._by_age[entry]
        bucket = self._by_length[entry.length]
        del bucket[entry]
        if not bucket:
            del self._by_length[entry.length]
            del self._lengths[bisect.bisect_left(self._lengths, entry.length)]
        return True

    def take(self, now: float) -> Batch[T]:
        """Remove and return the next batch: the oldest item and what goes well with it. Empty where nothing waits."""
        batch: Batch[T] = Batch()
        while (seed := self.oldest) is not None and not batch.entries:
            self._move(seed, batch, now)
        if batch.entries:
            self._grow(batch, now)
        return batch

    def _grow(self, batch: Batch[T], now: float) -> None:
        """Fill from the buckets outward from the seed's length.

        A side ends at the first length that does not fit: those behind it would need more room still, or more padding.
        """
        centre = batch.longest
        lengths = self._lengths.copy()  # emptied buckets leave the original while we walk
        above = bisect.bisect_left(lengths, centre)
        below = above - 1
        while below >= 0 or above < len(lengths):
            upward = below < 0 or (above < len(lengths) and lengths[above] - centre <= centre - lengths[below])
            emptied = self._fill(lengths[above if upward else below], batch, now)
            if upward:
                above = above + 1 if emptied else len(lengths)
            else:
                below = below - 1 if emptied else -1

    def _fill(self, length: int, batch: Batch[T], now: float) -> bool:
        """Move entries of one length to the batch, oldest first, while they fit; True where none is left."""
        while (bucket := self._by_length.get(length)) is not None:
            if not batch.has_room(self._budget, length):
                return False
            self._move(next(iter(bucket)), batch, now)
        return True

    def _move(self, entry: Entry[T], batch: Batch[T], now: float) -> None:
        self.discard(entry)
        if entry.deadline <= now:
            batch.expired.append(entry)
        else:
            batch.add(entry)


class Lanes(Generic[T]):
    """All lanes of a process; each batch comes from the lane whose head has waited longest."""

    def __init__(self, budgets: Mapping[LaneKey, Budget]) -> None:
        self._lanes: dict[LaneKey, Lane[T]] = {key: Lane(budget) for key, budget in budgets.items()}

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def add(self, entry: Entry[T]) -> None:
        """Queue an item in its lane."""
        self._lanes[entry.lane].add(entry)

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False where it is not waiting (any more)."""
        return self._lanes[entry.lane].discard(entry)

    def take(self, now: float) -> Batch[T]:
        """Remove and return the next batch; empty where nothing waits."""
        heads = [(head.arrived, lane) for lane in self._lanes.values() if (head := lane.oldest) is not None]
        if not heads:
            return Batch()
        return min(heads, key=lambda pair: pair[0])[1].take(now)
