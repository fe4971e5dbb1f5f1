"""Estimates for admission: the wait time of a request, and its number of tokens.

The wait follows from the drain rate of the last batches (EWMA). Younger items of nearer lengths
overtake older ones: the slowest wait twice as long as the tokens before them take. The ratio of
waits to estimates is learnt as a quantile, by stochastic approximation (Robbins and Monro, 1951).
Each longer wait is a step up. Each other wait is a hundredth of that step down.

Plain data: no threads, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headlight.runtime.values import Tokenized
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.requests.request import Input, TokenIds

RATE_MEMORY = 0.9  # weight of the past at each batch in the token rate: some ten batches count
LATE = 0.01  # share of the admitted requests that may wait longer than estimated
STEP = 0.02
LONGEST = 3.0  # times the estimate
# The estimate does not learn from harmless waits, whose expectation is below this share of the time
# to the deadline. Nor from waits of fewer than BATCHES batches, where only the running one counts.
WORTH = 0.25
BATCHES = 2
# Tokens that most tokenizers put around a text: most of a short one, little of a long one.
SPECIAL = 2
TEXT_MEMORY = 0.95  # weight of the past at each request in the tokens per character


class Expected(NamedTuple):
    """Wait-time estimate at admission, in seconds of work at the rate of that time.

    Attributes:
        before: work that was admitted earlier and goes first.
        request: the request's work.
        remaining: time until the deadline.
    """

    before: float
    request: float
    remaining: float


class WaitEstimate:
    """The queued work of one model, and the estimate of how long it takes.

    Attributes:
        weight: its share of the slots and of the queue, beside other models with work.
        queued: its tokens that are queued or running, by the part of the queue that they count for.
        reserved: tokens of the queue that other models cannot take, and those of them for bulk.
        committed: tokens of its admitted requests that are not queued yet, about.
    """

    def __init__(self, streams: int, weight: float = 1.0) -> None:
        """Start without a rate.

        Args:
            streams: number of workers: batches that share the CPUs without slowing one another.
            weight: see the attribute.
        """
        self.weight = weight
        self.queued: dict[Priority, int] = dict.fromkeys(PRIORITIES, 0)
        self.reserved: dict[Priority, int] = dict.fromkeys(PRIORITIES, 0)
        self.committed = 0
        self._streams = streams
        self._recent_tokens = 0.0
        self._recent_seconds = 0.0
        self._recent_batches = 0.0
        self._excess: dict[Priority, float] = dict.fromkeys(PRIORITIES, 1.0)

    def held(self, part: Priority) -> int:
        """Return its tokens in a part of the queue: in bulk's, or in the whole."""
        return self.queued["bulk"] if part == "bulk" else sum(self.queued.values())

    def unused(self, part: Priority) -> int:
        """Return the reserved tokens of a part of the queue that are free."""
        return max(0, self.reserved[part] - self.held(part))

    def seconds(self, tokens: float) -> float:
        """Return the seconds that so many tokens take on all slots; 0: no rate is known."""
        return (
            tokens * self._recent_seconds / self._recent_tokens / self._streams
            if self._recent_tokens
            else 0.0
        )

    @property
    def recent_batch_seconds(self) -> float:
        """Seconds of one of its last batches; 0: none has run."""
        return self._recent_seconds / self._recent_batches if self._recent_batches else 0.0

    def seconds_before(self, priority: Priority) -> float:
        """Return the seconds of its work that a new request of a priority waits for."""
        tokens = self.queued["interactive"]
        if priority == "bulk":
            tokens += self.queued["bulk"] + self.committed
        return self.seconds(tokens)

    def worked_off(self, tokens: int, seconds: float, wide: bool = False) -> None:
        """Learn the seconds of a batch; an exclusive (`wide`) one used the threads of all slots."""
        self._recent_tokens = RATE_MEMORY * self._recent_tokens + tokens
        self._recent_seconds = RATE_MEMORY * self._recent_seconds + seconds * (
            self._streams if wide else 1
        )
        self._recent_batches = RATE_MEMORY * self._recent_batches + 1

    def latest(self, expected: Expected, priority: Priority) -> float:
        """Return the seconds in which nearly all such requests end; 0: it runs at once, alone."""
        return (
            expected.before * self._excess[priority] + expected.request if expected.before else 0.0
        )

    def waited(
        self, expected: Expected, priority: Priority, seconds: float, *, answered: bool
    ) -> None:
        """Learn the wait of an admitted request.

        Args:
            expected: its estimate at admission.
            priority: the request's.
            seconds: until its answer or its cancellation.
            answered: whether it was answered; from a cancelled request, only a late wait is learnt.
        """
        worth = expected.before >= max(
            WORTH * expected.remaining, BATCHES * self.recent_batch_seconds
        )
        late = seconds > self.latest(expected, priority)
        if worth and expected.remaining > 0 and (late or answered):
            excess = self._excess[priority] + STEP * (late - LATE)
            self._excess[priority] = min(max(1.0, excess), LONGEST)


class Density:
    """Tokens per character of recent texts, to estimate a request's tokens early."""

    def __init__(self) -> None:
        """Start without texts; the estimate is no tokens."""
        self._tokens = 0.0
        self._characters = 0.0

    def learn(
        self, inputs: Sequence[Input], sizes: Sequence[int], tokenized: Sequence[Tokenized]
    ) -> None:
        """Learn from tokenised inputs of so many characters or ids. A race may lose one update."""
        sized = zip(inputs, sizes, tokenized, strict=False)
        texts = [(one, size) for value, size, one in sized if not isinstance(value, TokenIds)]
        if texts:
            tokens = sum(max(0, one.original_length - SPECIAL) for one, _ in texts)
            self._tokens = TEXT_MEMORY * self._tokens + tokens
            self._characters = TEXT_MEMORY * self._characters + sum(size for _, size in texts)

    def tokens(self, inputs: Sequence[Input], sizes: Sequence[int], longest: int) -> int:
        """Estimate the tokens of inputs, each at most `longest`; exact for ids."""
        ratio, tokens = self._tokens / self._characters if self._characters else 0.0, 0
        for value, size in zip(inputs, sizes, strict=True):
            if isinstance(value, TokenIds):
                tokens += size
            elif ratio:
                tokens += min(longest, SPECIAL + int(size * ratio))
        return tokens
