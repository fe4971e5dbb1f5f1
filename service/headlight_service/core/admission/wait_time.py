"""How long a request will wait: the rate of the last batches, and how far waits outlast what that rate says.

Batches are made of near lengths, so items are overtaken by younger ones, those of rare lengths most of all: the slowest wait twice as
long as the tokens before them take. Who would not be served in time had better hear so at once than after his deadline, and for a
request of many items all that was computed until then is lost. How far waits outlast the estimate depends on what is asked for, so it
is learnt: a quantile, by stochastic approximation (Robbins and Monro, 1951), a step up for each wait that was longer and one of a
hundredth of that down for each that was not.

Plain data: no event loop, no clock.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from headlight.wire.priority import PRIORITIES, Priority

MEMORY = 0.9  # weight of the past at each batch in the estimate of the token rate: some ten batches count
LATE = 0.01  # of the requests admitted may wait longer than is reckoned with
STEP = 0.02
LONGEST = 3.0  # times the estimate
# Of its patience, that a request must have been expected to wait, for its wait to tell anything: shorter ones are hardly foreseen, and
# no harm comes of it.
WORTH = 0.25
BATCHES = 2  # and as long as so many take: who comes late for the batch that was running says nothing of the queue


class Expected(NamedTuple):
    """What a request was admitted on, in seconds of work at the rate of then."""

    before: float  # of what was admitted before it and goes first
    own: float

    def latest(self, overrun: float) -> float:
        """Seconds after which it should be done, even where it is overtaken so much. Alone it runs at once, whatever the rate."""
        return self.before * overrun + self.own if self.before else 0.0


class Outlook:
    """What is expected of the queue of one model."""

    def __init__(self, streams: int) -> None:
        """Nothing is known yet.

        Args:
            streams: batches that share the CPUs without slowing one another.
        """
        self._streams = streams
        self._recent_tokens = 0.0
        self._recent_seconds = 0.0
        self._recent_batches = 0.0
        self._overrun: dict[Priority, float] = dict.fromkeys(PRIORITIES, 1.0)

    @property
    def known(self) -> bool:
        """Whether any batch has shown a rate."""
        return self._recent_tokens > 0

    def seconds(self, tokens: float) -> float:
        """How long so many tokens take, on all streams; 0 where no rate is known."""
        return tokens * self._recent_seconds / self._recent_tokens / self._streams if self._recent_tokens else 0.0

    def worked_off(self, tokens: int, seconds: float, wide: bool = False) -> None:
        """Learn that a batch of so many tokens took so long, on the threads of all streams where it was wide."""
        self._recent_tokens = MEMORY * self._recent_tokens + tokens
        self._recent_seconds = MEMORY * self._recent_seconds + seconds * (self._streams if wide else 1)
        self._recent_batches = MEMORY * self._recent_batches + 1

    def expect(self, before: int, tokens: int) -> Expected:
        """For a request of so many tokens, behind so many."""
        return Expected(self.seconds(before), self.seconds(tokens))

    def latest(self, expected: Expected, priority: Priority) -> float:
        """Seconds within which nearly all such requests are done."""
        return expected.latest(self._overrun[priority])

    def waited(self, expected: Expected, priority: Priority, patience: float, seconds: float) -> None:
        """Learn how long an admitted request took.

        Args:
            expected: of it, when it was admitted.
            priority: its own.
            patience: seconds that it had until its deadline, then; infinity for none.
            seconds: until it was answered; infinity where its deadline passed.
        """
        batch = self._recent_seconds / self._recent_batches if self._recent_batches else 0.0
        if not 0 < patience < math.inf or expected.before < max(WORTH * patience, BATCHES * batch):
            return
        overrun = self._overrun[priority]
        step = STEP * (1 - LATE) if seconds > expected.latest(overrun) else -STEP * LATE
        self._overrun[priority] = min(max(1.0, overrun + step), LONGEST)
