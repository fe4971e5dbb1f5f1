"""Entry point of the exporter, `headlight export`.

A signal ends it in order, even while modules are being imported.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType


class Stopped(BaseException):
    """A signal that ends the export.

    Like KeyboardInterrupt it is no Exception, so that handlers of Exception do not catch it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `headlight_export.command.main` and return its exit code.

    After Ctrl-C it is 130, after SIGTERM 143, and unfinished files are removed.

    Args:
        arguments: of the command line; None: those of the process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        # Imports PyTorch, which takes seconds.
        from headlight_export import command  # noqa: PLC0415

        return command.main(arguments)
    except Stopped as stopped:
        print(f"export: {stopped}", file=sys.stderr)
        return stopped.code


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the cleanup
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
