"""Progress reports of an export on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = Callable[[str], None]  # called with each step, before it begins


def silent(_step: str) -> None:
    """Report nothing."""


class Lines:
    """Steps with elapsed seconds: one line that changes on a terminal, else a line for each."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self._open = False

    def __call__(self, step: str) -> None:
        """Show a step."""
        line = f"{time.monotonic() - self._begin:5.0f} s  {step}"
        print(
            f"\r\x1b[2K{line}" if self._redraws else line,
            end="" if self._redraws else "\n",
            flush=True,
        )
        self._open = self._redraws

    def tell(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        print(line, flush=True)

    def close(self) -> None:
        """End the changing line."""
        if self._open:
            print(flush=True)
            self._open = False
