"""Estimates that admission goes by: how long a request will wait, and how many tokens it has.

The wait follows from the rate of the last batches. Items are overtaken by younger ones of nearer
lengths: the slowest wait twice as long as the tokens before them take. How far waits outlast the
rate is learnt as a quantile, by stochastic approximation (Robbins and Monro, 1951): a step up for
each wait that was longer, and a hundredth of that down for each that was not.

Plain data: no threads, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headlight.runtime.values import Tokenized
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.requests.request import Input, TokenIds

RATE_MEMORY = 0.9  # weight of the past at each batch in the token rate: some ten batches count
LATE = 0.01  # of the requests admitted may wait longer than is reckoned with
STEP = 0.02
LONGEST = 3.0  # times the estimate
# Waits from which nothing is learnt: those expected to take less than this share of the patience,
# which do no harm, or less than so many batches, where only the batch that was running counted.
WORTH = 0.25
BATCHES = 2
# Tokens that most tokenizers put around a text: most of a short one, next to nothing of a long one.
SPECIAL = 2
TEXT_MEMORY = 0.95  # weight of the past at each request in what is known of texts


class Expected(NamedTuple):
    """What a request was admitted on, in seconds of work at the rate of then.

    Attributes:
        before: of what was admitted before it and goes first.
        patience: until its deadline.
    """

    before: float
    own: float
    patience: float


class WaitEstimate:
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

    def seconds(self, tokens: float) -> float:
        """How long so many tokens take, on all streams; 0 where no rate is known."""
        return tokens * self._recent_seconds / self._recent_tokens / self._streams if self._recent_tokens else 0.0

    def worked_off(self, tokens: int, seconds: float, wide: bool = False) -> None:
        """Learn how long a batch took; a wide one had the threads of all streams."""
        self._recent_tokens = RATE_MEMORY * self._recent_tokens + tokens
        self._recent_seconds = RATE_MEMORY * self._recent_seconds + seconds * (self._streams if wide else 1)
        self._recent_batches = RATE_MEMORY * self._recent_batches + 1

    def latest(self, expected: Expected, priority: Priority) -> float:
        """Seconds within which nearly all such requests are done; 0: it runs at once, alone."""
        return expected.before * self._overrun[priority] + expected.own if expected.before else 0.0

    def waited(self, expected: Expected, priority: Priority, seconds: float, *, answered: bool) -> None:
        """Learn how long an admitted request took.

        Args:
            expected: of it, when it was admitted.
            priority: its own.
            seconds: until it was answered, or given up.
            answered: False: it was given up, which tells nothing unless that was late.
        """
        batch = self._recent_seconds / self._recent_batches if self._recent_batches else 0.0
        worth = expected.before >= max(WORTH * expected.patience, BATCHES * batch)
        late = seconds > self.latest(expected, priority)
        if worth and expected.patience > 0 and (late or answered):
            overrun = self._overrun[priority] + STEP * (late - LATE)
            self._overrun[priority] = min(max(1.0, overrun), LONGEST)


class Density:
    """Tokens in a character of recent texts, to estimate a request's tokens before it is read."""

    def __init__(self) -> None:
        """Nothing is known: texts seem to have no tokens."""
        self._tokens = 0.0
        self._characters = 0.0

    def learn(self, inputs: Sequence[Input], sizes: Sequence[int], found: Sequence[Tokenized]) -> None:
        """Note what came of inputs of so many characters or ids. Two threads may lose one note."""
        told = zip(inputs, sizes, found, strict=False)
        texts = [(one, size) for value, size, one in told if not isinstance(value, TokenIds)]
        if texts:
            tokens = sum(max(0, one.original_length - SPECIAL) for one, _ in texts)
            self._tokens = TEXT_MEMORY * self._tokens + tokens
            self._characters = TEXT_MEMORY * self._characters + sum(size for _, size in texts)

    def tokens(self, inputs: Sequence[Input], sizes: Sequence[int], longest: int) -> int:
        """Estimate the tokens of inputs, each at most `longest`: exact for ids."""
        ratio, tokens = self._tokens / self._characters if self._characters else 0.0, 0
        for value, size in zip(inputs, sizes, strict=True):
            if isinstance(value, TokenIds):
                tokens += size
            elif ratio:
                tokens += min(longest, SPECIAL + int(size * ratio))
        return tokens
