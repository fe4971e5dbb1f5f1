"""The size of bulk batches: how much work those of a lane were, and how large one may be.

A batch costs something however small it is, and the rest grows with its size. Both are told from
the last batches by medians, so that a few that were held up do not count. Plain data: no clock.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from typing import NamedTuple

from headlight_service.core.scheduler.lanes import Budget

RECENT = 9  # batches that are remembered
ENOUGH = 5  # batches from which the fixed cost is told
UNLIKE = 1.5  # times as large is one batch as another, at least, for a slope between them
WORTH = 1.25  # times the fixed cost that a batch may take, even beyond the limit
GROWTH = 2  # times the largest of the last, to which the next may grow by a known fixed cost
LONE = 16  # single items, alike and over half of the limit, after which a larger batch is tried
LEAST = 0.01  # of a batch's time that depends on its size, at least


class _Ran(NamedTuple):
    """A batch."""

    items: int
    tokens: int  # padded
    squares: int
    seconds: float


class Pace:
    """The work of a lane's last batches: a fixed cost, and a rate."""

    def __init__(self) -> None:
        self._batches: deque[_Ran] = deque(maxlen=RECENT)
        self._fixed = 0.0  # seconds; kept while all batches are alike
        self._alike = 0  # batches since the fixed cost was last told

    def learn(self, count: int, longest: int, seconds: float) -> None:
        """Note that a batch of `count` items padded to `longest` tokens was so much work."""
        padded = count * longest
        self._batches.append(_Ran(count, padded, padded * longest, max(seconds, 1e-9)))
        slopes = [
            (large.seconds - small.seconds) / (large.tokens - small.tokens)
            for small, large in itertools.permutations(self._batches, 2)
            if large.tokens >= UNLIKE * small.tokens
        ]
        self._alike += 1
        if slopes and len(self._batches) >= ENOUGH:
            self._alike = 0
            slope = max(0.0, statistics.median(slopes))
            rests = (ran.seconds - slope * ran.tokens for ran in self._batches)
            self._fixed = max(0.0, statistics.median(rests))

    def limit(self, budget: Budget, seconds: float) -> Budget:
        """Return a budget for batches of at most about so many seconds of work.

        Before any batch has run, one item runs alone and tells. Where what every batch costs is as
        much as the limit or more, no batch can be so short, and small ones cost all but as much as
        larger ones: these take a little longer then.
        """
        if math.isinf(seconds):
            return budget
        if not self._batches:
            return budget.within(1)
        # No more than a batch takes; as what most take, or noise would be all that is left of it.
        fixed = min(self._fixed, statistics.median(ran.seconds for ran in self._batches))
        allowed = max(seconds, WORTH * fixed) - fixed
        takes = [max(ran.seconds - fixed, LEAST * ran.seconds) for ran in self._batches]
        # Whether single items say that there is no time for more, and nothing that there is.
        last = self._batches[-1]
        stuck = self._alike >= LONE and last.items == 1 and last.seconds > seconds / GROWTH

        def most(sizes: list[int]) -> int:
            rate = statistics.median(size / took for size, took in zip(sizes, takes, strict=True))
            largest = GROWTH * max(sizes)
            fits = max(allowed * rate, largest if stuck else 1)
            return int(min(fits, largest) if fixed else fits)

        squares = None if budget.squares is None else most([ran.squares for ran in self._batches])
        return budget.within(most([ran.tokens for ran in self._batches]), squares)
