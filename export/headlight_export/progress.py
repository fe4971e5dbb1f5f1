"""Progress reports of an export on the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence

Progress = Callable[[str], None]  # called with each step, before it begins

INDENT = " " * 10  # as wide as the time
# Steps of every export; what is shown between two of them is a detail of the first.
READING, TOKENIZER = "reading the folder", "measuring the tokenizer on hard texts"
FLOAT64, PEER = "computing with PyTorch", "comparing tokens and vectors with transformers"
TRACING, COMPARING = "tracing the graph", "comparing the bundle with PyTorch"
STEPS = (READING, TOKENIZER, FLOAT64, PEER, TRACING, COMPARING)
# Steps of some.
DOWNLOAD, RANGES, VARIANTS = "downloading", "calibrating int8 vectors", "measuring the precisions"
OWNER = "comparing blocks with your model"  # a detail of PEER
SENTENCES = "comparing texts with sentence-transformers"


def silent(_step: str) -> None:
    """Report nothing."""


def _columns() -> int:
    return max(40, shutil.get_terminal_size().columns)


class Lines:
    """Numbered steps with the time of day: one line that changes on a terminal, else several."""

    def __init__(self, steps: Sequence[str] = STEPS) -> None:
        """Start before the first of some steps."""
        self._steps = steps
        self._redraws = sys.stdout.isatty()
        self._open = False
        self._step = ""

    def __call__(self, step: str) -> None:
        """Show a step, or a detail of the current one."""
        line = f"{INDENT}{step}"
        if step in self._steps:
            number = self._steps.index(step) + 1
            self._step = f"step {number} of {len(self._steps)}: {step}"
            line = f"{time.strftime('%H:%M:%S')}  {self._step}"
        elif self._redraws:
            line = f"{time.strftime('%H:%M:%S')}  {self._step}: {step}"
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
