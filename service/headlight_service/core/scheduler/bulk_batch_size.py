"""Bulk batch size: the work of a lane's last batches, and the largest size of the next.

A batch has a fixed cost, and the rest grows with its size. Both are estimated from the last batches
by medians, so that a few delayed batches do not count. Plain data: no clock.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from typing import NamedTuple

from headlight_service.core.scheduler.lanes import BatchLimit

RECENT = 9  # batches that are remembered
ENOUGH = 5  # batches that an estimate of the fixed cost needs
UNLIKE = 1.5  # least ratio of the sizes of two batches for a slope between them
WORTH = 1.25  # times the fixed cost that a batch may take, even beyond the limit
GROWTH = 2  # times the largest recent batch: limit of the next if the fixed cost is known
# Batches of like size until a larger one is tried, if the last had one item and took more than half
# of the limit.
LONE = 16
LEAST = 0.01  # least part of a batch's time that depends on its size


class _Ran(NamedTuple):
    """A batch that ran."""

    items: int
    tokens: int  # padded
    squares: int
    seconds: float


class BulkBatchSize:
    """Bulk batch size of a lane, from the fixed cost and the rate of its last batches."""

    def __init__(self) -> None:
        self._batches: deque[_Ran] = deque(maxlen=RECENT)
        self._fixed = 0.0  # seconds; kept while all batches are alike
        self._alike = 0  # batches since the last estimate of the fixed cost

    def learn(self, count: int, longest: int, seconds: float) -> None:
        """Learn the CPU time of a batch of `count` items padded to `longest` tokens."""
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

    def limit(self, lane_limit: BatchLimit, seconds: float) -> BatchLimit:
        """Return a limit for batches of at most about so many seconds of work.

        Before any batch has run, one item runs alone for a first measurement. If the fixed cost
        reaches the limit, no batch can be so short. Small batches then cost nearly as much as
        larger ones, so batches may take a little longer.
        """
        if math.isinf(seconds):
            return lane_limit
        if not self._batches:
            return lane_limit.within(1)
        # At most the time of a median batch; otherwise the rest of that time would be only noise.
        fixed = min(self._fixed, statistics.median(ran.seconds for ran in self._batches))
        allowed = max(seconds, WORTH * fixed) - fixed
        takes = [max(ran.seconds - fixed, LEAST * ran.seconds) for ran in self._batches]
        # Stuck: only single items ran, they fill the time, and no batch shows that more would fit.
        last = self._batches[-1]
        stuck = self._alike >= LONE and last.items == 1 and last.seconds > seconds / GROWTH

        def most(sizes: list[int]) -> int:
            rate = statistics.median(size / took for size, took in zip(sizes, takes, strict=True))
            largest = GROWTH * max(sizes)
            fits = max(allowed * rate, largest if stuck else 1)
            return int(min(fits, largest) if fixed else fits)

        squares = (
            None if lane_limit.squares is None else most([ran.squares for ran in self._batches])
        )
        return lane_limit.within(most([ran.tokens for ran in self._batches]), squares)
