"""How fast the batches of a lane run: to make one that takes about so long, and to know when one will be done. Plain data: no clock."""

from __future__ import annotations

import math
import statistics
from collections import deque

from service.lanes import Budget

RECENT = 9  # batches; their median: a few that something else held up, four in a row even, do not count


class Pace:
    """The rate of a lane: the median of its last batches."""

    def __init__(self) -> None:
        self._tokens: deque[float] = deque(maxlen=RECENT)  # per second
        self._squares: deque[float] = deque(maxlen=RECENT)

    def learn(self, count: int, longest: int, seconds: float) -> None:
        """Note that a batch of `count` items padded to `longest` tokens took so long."""
        seconds = max(seconds, 1e-9)
        self._tokens.append(count * longest / seconds)
        self._squares.append(count * longest * longest / seconds)

    def limit(self, budget: Budget, seconds: float) -> Budget:
        """A budget for batches of at most about so many seconds.

        Before any batch has run there is nothing to go by: one item then runs alone and tells. What every batch costs, however
        small, makes small ones look slow; the budget still comes out right after a few, because each is measured as it is.
        """
        if math.isinf(seconds):
            return budget
        if not self._tokens:
            return budget.within(1)
        tokens = max(1, int(seconds * statistics.median(self._tokens)))
        if budget.squares is None:
            return budget.within(tokens)
        return budget.within(tokens, max(1, int(seconds * statistics.median(self._squares))))


class Durations:
    """How long the last batches took, by their size."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float]] = deque(maxlen=RECENT)

    def learn(self, padded: int, seconds: float) -> None:
        """Note that a batch of so many tokens, padding included, took so long."""
        self._batches.append((padded, seconds))

    def expect(self, padded: int) -> float:
        """Seconds that one of so many tokens takes at least: the median of those of half as many and more. 0 where there was none.

        Not from the rate of others: small batches make any engine look slow, and large ones would seem to take longer than they do.
        """
        alike = [seconds for size, seconds in self._batches if padded / 2 <= size <= padded]
        return statistics.median(alike) if alike else 0.0
