"""How much work the batches of a lane are, so that one can be made to be about so much. Plain data: no clock."""

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
        """Note that a batch of `count` items padded to `longest` tokens was so much work."""
        seconds = max(seconds, 1e-9)
        self._tokens.append(count * longest / seconds)
        self._squares.append(count * longest * longest / seconds)

    def limit(self, budget: Budget, seconds: float) -> Budget:
        """A budget for batches of at most about so many seconds of work.

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
