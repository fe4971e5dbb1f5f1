"""Entry point of the command `headlight`.

`headlight serve`, `export`, `verify`, `tune` and `info --resources` belong to other packages: the
only upward imports. Each command loads its modules when it runs, because `headlight serve` sets
variables that gRPC reads on import.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from headlight.extras import MissingExtra


class Part(NamedTuple):
    """A command of another package.

    Attributes:
        module: has `main(arguments)`.
        options: the module that has `command_parser()`, for completion and docs.
        summary: its line in --help.
    """

    module: str
    options: str
    summary: str


PARTS = {
    "serve": Part(
        "headlight_service.__main__",
        "headlight_service.config.options",
        "serve a model over gRPC",
    ),
    "export": Part(
        "headlight_export.__main__",
        "headlight_export.command",
        "turn a model's folder or a Hub id into a bundle",
    ),
    "verify": Part(
        "headlight_export.verify",
        "headlight_export.verify_command",
        "compare a model with PyTorch, transformers and sentence-transformers",
    ),
    "tune": Part(
        "headlight_service.app.tuning",
        "headlight_service.app.tuning",
        "find this machine's fastest options",
    ),
}

RESOURCES = "headlight_service.app.resources"  # of `headlight info --resources`


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        Its exit code; 2, after one line on standard error, if a package lacks an extra; 130 if
        it was interrupted while it was loaded.
    """
    arguments = sys.argv[1:] if argv is None else [*argv]
    name = arguments[0] if arguments else ""
    try:
        part = importlib.import_module(
            PARTS[name].module if name in PARTS else "headlight.cli.commands"
        )
        code: int = part.main(arguments[1:] if name in PARTS else arguments)
    except MissingExtra as error:
        sys.stderr.write(f"headlight: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code
