"""Retry policy: which errors another try may mend, and how long to wait before it."""

from __future__ import annotations

import random
import time

from headlight.errors import HeadlightError, MixedWeights, Overloaded, Unavailable

MOST_RETRIES = 8  # in a row, without an answer between them
FIRST_BACKOFF_SECONDS = 0.1
# That a server can have this client wait before a retry; of `MOST_RETRIES`, eight minutes.
LONGEST_PUSHBACK_SECONDS = 60.0


class Retries:
    """Retries of one call of a method.

    Attributes:
        mended: the errors that another try may mend.
    """

    def __init__(
        self, deadline: float | None, *mended: type[HeadlightError], once_answered: type[HeadlightError] | None = None
    ) -> None:
        """Begin to count.

        Args:
            deadline: by the monotonic clock; no retry is begun after it.
            mended: see the class.
            once_answered: one more of them, once something was answered.
        """
        self.mended = mended
        self._deadline = deadline
        self._once_answered = once_answered
        self._tried = 0
        self._shed = False  # whether the last error was a refusal until later

    def reset(self) -> None:
        """Something was answered."""
        self._tried = 0
        if self._once_answered is not None:
            self.mended, self._once_answered = (*self.mended, self._once_answered), None

    def delay(self, error: HeadlightError) -> float | None:
        """Return the seconds to wait after one of the mended errors, at most `LONGEST_PUSHBACK_SECONDS`.

        None: there is no other try, as waiting cannot help, was tried often enough, or would outlast the deadline.
        """
        seconds = None if isinstance(error, MixedWeights) else self._backoff(error)
        if seconds is None or (self._deadline is not None and seconds >= self._deadline - time.monotonic()):
            return None
        self._shed = isinstance(error, Overloaded)
        return min(seconds, LONGEST_PUSHBACK_SECONDS)

    def covers(self, error: object) -> bool:
        """Return whether the wait after the last error is also one for a call beside it that ended with this error.

        Either that was lost, or both were refused until later.
        """
        shed = isinstance(error, Overloaded) and error.retry_after_seconds is not None
        return isinstance(error, Unavailable) or (shed and self._shed)

    def _backoff(self, error: HeadlightError) -> float | None:
        """What the server named, else twice as long each time; a little more, so that callers spread."""
        own = FIRST_BACKOFF_SECONDS * 2**self._tried
        seconds = error.retry_after_seconds if isinstance(error, Overloaded) else own
        self._tried += 1
        if seconds is None or self._tried > MOST_RETRIES:
            return None
        return seconds * random.uniform(1.0, 1.25)
