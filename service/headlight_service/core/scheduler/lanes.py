"""One queue: which of its waiting items run next, together. Plain data: no event loop, no clock (`now` is passed in).

A lane holds the items of one priority that one graph of one model can serve together
(`headlight_service.core.scheduler.batch_policy` chooses between lanes).
A batch starts from the lane's oldest item, so nothing starves, and grows by items of the nearest lengths, so little is
padding. Adding, discarding and taking cost the same however many items wait; what came together and is of one size is added and
taken together, for little more than one item costs.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from headlight.runtime.values import Role
from headlight.spec import Priority

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

    def room(self, count: int, longest: int, total: int, size: int, wanted: int) -> int:
        """How many of `wanted` items of one size may join `count` that are padded to `longest` and alone take `total` tokens."""
        longest = max(longest, size)

        def too_many(more: int) -> bool:
            return not self.admits(count + more, longest, total + more * size)

        if too_many(1):
            return 0
        # All costs grow evenly: where the first and the last fit, so do those in between.
        if wanted == 1 or not too_many(wanted):
            return wanted
        return bisect.bisect_left(range(1, wanted), True, key=too_many)


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
    bunch: Bunch[T] | None = dataclasses.field(default=None, init=False, repr=False)  # for its lane alone


class Bunch(Generic[T]):
    """Entries that came together: of one request, one deadline and one size; those that still wait, oldest first."""

    __slots__ = ("deadline", "size", "waiting")

    def __init__(self, size: int, entries: Iterable[Entry[T]]) -> None:
        # Not ordered as a lane is: what has left at the front is passed over each time, but no more than a request holds.
        self.waiting = dict.fromkeys(entries)
        self.size = size
        self.deadline = self.first.deadline
        for entry in self.waiting:
            entry.bunch = self

    @property
    def first(self) -> Entry[T]:
        return next(iter(self.waiting))

    def take(self, count: int) -> list[Entry[T]]:
        """Remove so many from the front."""
        taken = list(itertools.islice(self.waiting, count))
        for entry in taken:
            del self.waiting[entry]
        return taken


@dataclasses.dataclass(slots=True)
class Batch(Generic[T]):
    """What `take` took from one lane: entries to run together, oldest first, and entries whose deadline had passed."""

    entries: list[Entry[T]] = dataclasses.field(default_factory=list)
    expired: list[Entry[T]] = dataclasses.field(default_factory=list)
    longest: int = 0  # tokens that each item is padded to
    sizes: int = 0  # tokens that the items would take alone
    total: int = 0  # tokens, padding excluded

    @property
    def padded(self) -> int:
        """Tokens, padding included."""
        return len(self.entries) * self.longest

    def add(self, entries: list[Entry[T]], size: int) -> None:
        self.entries += entries
        self.longest = max(self.longest, size)
        self.sizes += size * len(entries)
        self.total += sum([entry.length for entry in entries])

    def room(self, budget: Budget, size: int, wanted: int) -> int:
        """How many items of this size may join, of so many."""
        return budget.room(len(self.entries), self.longest, self.sizes, size, wanted)


class Lane(Generic[T]):
    """The waiting items of one graph and one priority, by age and by size.

    Ordered dictionaries rather than deques, so that an item whose caller has gone leaves at once, wherever it stands.

    Attributes:
        count: items.
        waiting: tokens that they would take alone.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.count = 0
        self._by_age: OrderedDict[Bunch[T], None] = OrderedDict()
        self._by_size: dict[int, OrderedDict[Bunch[T], None]] = {}
        self._sizes: list[int] = []  # the keys of _by_size, sorted

    @property
    def oldest(self) -> Entry[T]:
        """The item that has waited longest, of one or more."""
        return next(iter(self._by_age)).first

    def add(self, *entries: Entry[T]) -> None:
        """Queue items behind all others; several are of one request and have one deadline."""
        for size, alike in itertools.groupby(entries, operator.attrgetter("size")):
            bunch = Bunch(size, alike)
            self._by_age[bunch] = None
            self._changed(bunch, len(bunch.waiting))
            bucket = self._by_size.get(size)
            if bucket is None:
                bucket = self._by_size[size] = OrderedDict()
                bisect.insort(self._sizes, size)
            bucket[bunch] = None

    def discard(self, entry: Entry[T]) -> bool:
        """Remove an item; False where it is not waiting here (any more)."""
        bunch = entry.bunch
        if bunch is None or entry not in bunch.waiting:
            return False
        del bunch.waiting[entry]
        self._changed(bunch, -1)
        return True

    def _changed(self, bunch: Bunch[T], count: int) -> None:
        """So many of a bunch have come or, where negative, have left; where none is left, so does the bunch."""
        self.count += count
        self.waiting += count * bunch.size
        if bunch.waiting:
            return
        del self._by_age[bunch]
        bucket = self._by_size[bunch.size]
        del bucket[bunch]
        if not bucket:
            del self._by_size[bunch.size]
            del self._sizes[bisect.bisect_left(self._sizes, bunch.size)]

    def take(self, now: float, budget: Budget) -> Batch[T]:
        """Remove and return the next batch: the oldest item and what goes well with it. Empty where nothing waits."""
        batch: Batch[T] = Batch()
        while self._by_age and not batch.entries:
            self._move(next(iter(self._by_age)), 1, batch, now)
        if batch.entries and self.count:
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
            bunch = next(iter(bucket))
            room = batch.room(budget, size, len(bunch.waiting))
            if not room:
                return False
            self._move(bunch, room, batch, now)
        return True

    def _move(self, bunch: Bunch[T], count: int, batch: Batch[T], now: float) -> None:
        """Move so many of a bunch to the batch; where they have expired, all of it."""
        if bunch.deadline <= now:
            batch.expired += (taken := bunch.take(len(bunch.waiting)))
        else:
            batch.add(taken := bunch.take(count), bunch.size)
        self._changed(bunch, -len(taken))
