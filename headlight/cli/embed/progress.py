"""Progress of a long command on standard error: one rewritten line, or log lines."""

from __future__ import annotations

import sys
import threading
import time

from headlight.cli.files import say, say_here

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0  # between two lines


class Progress:
    """Progress report of finished texts. Threads may share it.

    Args:
        total: number of texts.
        reports: whether to report; None: only in a terminal.
    """

    def __init__(self, total: int, reports: bool | None) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._reports = self._terminal if reports is None else reports
        self._total, self._lock = total, threading.Lock()
        self._done = self._before = 0
        self._begun = self._reported = time.monotonic()

    def begin(self, done: int) -> None:
        """Begin to measure the rate, and say so; `done` texts were finished before."""
        self._done = self._before = done
        self._begun = self._reported = time.monotonic()
        if done < self._total:
            self._say(f"{done:,} of {self._total:,} texts")

    def add(self, count: int) -> None:
        """Report that `count` more texts are finished."""
        with self._lock:
            self._done += count
            now, done = time.monotonic(), self._done
            between = TERMINAL_SECONDS if self._terminal else LOG_SECONDS
            if done < self._total and now - self._reported < between:
                return
            self._reported = now
            rate = (done - self._before) / max(now - self._begun, 1e-3)
            minutes, rest = divmod(round((self._total - done) / max(rate, 1e-9)), 60)
            self._say(
                f"{done:,} of {self._total:,} texts, {rate:,.0f} a second, {minutes}:{rest:02} left"
            )

    def clear(self) -> None:
        """Clear the line of a terminal."""
        if self._terminal:
            self._say("")

    def _say(self, line: str) -> None:
        if self._reports:
            (say_here if self._terminal else say)(line)
