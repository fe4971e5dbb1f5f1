"""Entry point of the exporter, `headlight export`: a signal ends it in order, also while it is still being imported."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType


class Stopped(BaseException):
    """A signal asked for the end. Like KeyboardInterrupt no Exception: whoever carries on after those must not carry on here."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `headlight_export.command.main` and return its exit code.

    After Ctrl-C it is 130, after SIGTERM 143, and what was begun is cleared away.

    Args:
        arguments: of the command line; None: those of the process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        from headlight_export import command  # noqa: PLC0415  (imports PyTorch, which takes seconds)

        return command.main(arguments)
    except Stopped as stopped:
        print(f"export: {stopped}", file=sys.stderr)
        return stopped.code


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the clearing away
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
