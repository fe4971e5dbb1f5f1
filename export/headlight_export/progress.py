"""Progress reports of an export on the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable

Progress = Callable[[str], None]  # called with each step, before it begins

INDENT = " " * 10  # as wide as the seconds


def silent(_step: str) -> None:
    """Report nothing."""


def _columns() -> int:
    return max(40, shutil.get_terminal_size().columns)


class Lines:
    """Steps with elapsed seconds: one line that changes on a terminal, else a line for each."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self._open = False

    def __call__(self, step: str) -> None:
        """Show a step."""
        line = f"{time.monotonic() - self._begin:6.1f} s  {step}"
        if self._redraws:  # a line that wraps could not be drawn again
            print(f"\r\x1b[2K{line[: _columns() - 1]}", end="", flush=True)
        else:
            print(line, flush=True)
        self._open = self._redraws

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        print(
            textwrap.fill(
                line,
                _columns(),
                initial_indent=INDENT,
                subsequent_indent=INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
            if self._redraws
            else line,
            flush=True,
        )

    def close(self) -> None:
        """End the changing line."""
        if self._open:
            print(flush=True)
            self._open = False
