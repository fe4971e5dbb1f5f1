"""Entry of the command `headlight`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from headlight.cli.parts import PARTS, run_part
from headlight.cli.shipped_model import with_bundle


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    The modules of a command are loaded when it is called: `headlight serve` sets variables that gRPC reads when it is loaded.
    """
    arguments = sys.argv[1:] if argv is None else [*argv]
    if arguments[:1] == ["serve"]:
        return run_part("serve", lambda: with_bundle(arguments[1:], os.environ))
    if arguments and arguments[0] in PARTS:
        return run_part(arguments[0], lambda: arguments[1:])
    code: int = importlib.import_module("headlight.cli.commands").main(arguments)
    return code
