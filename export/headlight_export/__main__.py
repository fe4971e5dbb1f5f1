"""Entry points of the exporter, `headlight export` and `headlight verify`.

A signal ends them in order, even while modules are being imported.
"""

from __future__ import annotations

import importlib
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
    return run("export", "headlight_export.command", arguments)


def run(name: str, module: str, arguments: Sequence[str] | None) -> int:
    """Run `main` of a module as the command `name`; see `main`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        # Imports PyTorch, which takes seconds.
        code: int = importlib.import_module(module).main(arguments)
    except Stopped as stopped:
        print(f"{name}: {stopped}", file=sys.stderr)
        return stopped.code
    return code


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the cleanup
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
