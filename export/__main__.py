"""`python -m export CHECKPOINT --out DIR`: `export.command`, which a signal ends in order, also while it is still being imported."""

from __future__ import annotations

import signal
import sys
from types import FrameType


class Stopped(BaseException):
    """A signal asked for the end. Like KeyboardInterrupt no Exception: whoever carries on after those must not carry on here."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def main() -> int:
    """The exit code of `export.command.main`, or 130 after Ctrl-C and 143 after SIGTERM: then what was begun is cleared away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        from export import command  # noqa: PLC0415  (imports PyTorch, which takes seconds)

        return command.main()
    except Stopped as stopped:
        print(f"export: {stopped}", file=sys.stderr)
        return stopped.code


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the clearing away
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
