"""Progress of a long command on standard error: one rewritten line, or log lines."""

from __future__ import annotations

import sys
import time

from headlight.cli.files import say, say_here

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0  # between two lines


class Progress:
    """Progress report of finished texts.

    Args:
        total: number of texts.
        wanted: whether to report; None: only in a terminal.
    """

    def __init__(self, total: int, wanted: bool | None) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._wanted = self._terminal if wanted is None else wanted
        self._total = total
        self.begin(0)

    def begin(self, done: int) -> None:
        """Begin to measure the rate; `done` texts were finished before."""
        self._before = done
        self._begun = self._told = time.monotonic()

    def tell(self, done: int) -> None:
        """Report that `done` texts are finished."""
        now = time.monotonic()
        if self._wanted and (
            done == self._total
            or now - self._told >= (TERMINAL_SECONDS if self._terminal else LOG_SECONDS)
        ):
            self._told = now
            rate = (done - self._before) / max(now - self._begun, 1e-3)
            minutes, rest = divmod(round((self._total - done) / max(rate, 1e-9)), 60)
            line = (
                f"{done:,} of {self._total:,} texts, {rate:,.0f} a second, {minutes}:{rest:02} left"
            )
            (say_here if self._terminal else say)(line)

    def clear(self) -> None:
        """Clear the line of a terminal."""
        if self._wanted and self._terminal:
            say_here("")
