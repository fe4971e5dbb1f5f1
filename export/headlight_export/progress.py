"""Telling a person how far an export is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = Callable[[str], None]  # told each step, before it begins


def silent(_step: str) -> None:
    """Tells nobody."""


class Lines:
    """Steps and the seconds so far: one line that changes on a terminal, a line each elsewhere."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self._open = False

    def __call__(self, step: str) -> None:
        """Show a step."""
        line = f"{time.monotonic() - self._begin:5.0f} s  {step}"
        print(f"\r\x1b[2K{line}" if self._redraws else line, end="" if self._redraws else "\n", flush=True)
        self._open = self._redraws

    def tell(self, line: str) -> None:
        """Show what is to stay."""
        self.close()
        print(line, flush=True)

    def close(self) -> None:
        """End the line that changes."""
        if self._open:
            print(flush=True)
            self._open = False
