"""Admission: nothing is queued without a permit, and there are only so many, counted in tokens.

A permit is held from before the queue until its request is done or its caller gone: memory and waiting stay bounded.
"""

from __future__ import annotations

from types import TracebackType

from headlight.errors import Overloaded

MEMORY = 0.9  # weight of the past at each batch in the estimate of the token rate: some ten batches count
SHORTEST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 30.0
FIRST_RETRY_SECONDS = 1.0  # before any batch has shown a rate


class Permit:
    """The right to queue so many tokens. A context manager: leaving gives it back."""

    __slots__ = ("_admission", "tokens")

    def __init__(self, admission: Admission, tokens: int) -> None:
        self._admission = admission
        self.tokens = tokens

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.held_tokens -= self.tokens
        self.tokens = 0


class Admission:
    """The permits of one model. For the event loop's thread alone.

    Attributes:
        held_tokens: tokens of all permits given out, running ones included.
    """

    def __init__(self, max_tokens: int, streams: int = 1) -> None:
        """Nothing is admitted yet.

        Args:
            max_tokens: tokens that may be queued or running at once.
            streams: batches that run at the same time.
        """
        self.held_tokens = 0
        self._max_tokens = max_tokens
        self._streams = streams
        self._recent_tokens = 0.0
        self._recent_seconds = 0.0

    def admit(self, tokens: int) -> Permit:
        """A permit for so many tokens.

        Raises:
            Overloaded: the queue is full; with the time after which half of it should be worked off.
        """
        if self.held_tokens + tokens > self._max_tokens:
            delay = self._retry_after_seconds(tokens)
            used = f"{self.held_tokens} of {self._max_tokens} tokens, {tokens} asked for"
            raise Overloaded(f"the queue is full ({used}); try again in {delay:.2f} s", delay)
        self.held_tokens += tokens
        return Permit(self, tokens)

    def worked_off(self, tokens: int, seconds: float) -> None:
        """Learn that a batch of so many tokens took so long."""
        self._recent_tokens = MEMORY * self._recent_tokens + tokens
        self._recent_seconds = MEMORY * self._recent_seconds + seconds

    def _retry_after_seconds(self, tokens: int) -> float:
        if not self._recent_tokens:
            return FIRST_RETRY_SECONDS
        seconds_per_token = self._recent_seconds / self._recent_tokens / self._streams
        # Half the queue: sooner, all who were refused would meet before a full one; later, it could run dry meanwhile.
        excess = self.held_tokens + tokens - self._max_tokens / 2
        return min(max(excess * seconds_per_token, SHORTEST_RETRY_SECONDS), LONGEST_RETRY_SECONDS)
