"""Entry of the command `headlight`.

`headlight serve` and `headlight export` belong to other packages: the only upward imports. Each
command loads its modules when it runs, because `headlight serve` sets variables that gRPC reads on
import.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

from headlight.extras import MissingExtra

# Command: the module with `main(arguments)`, and its line in --help.
PARTS = {
    "serve": ("headlight_service.__main__", "serve a model over gRPC"),
    "export": (
        "headlight_export.__main__",
        "turn a model's folder, or one of the Hugging Face Hub, into a bundle",
    ),
}


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
            PARTS[name][0] if name in PARTS else "headlight.cli.commands"
        )
        code: int = part.main(arguments[1:] if name in PARTS else arguments)
    except MissingExtra as error:
        sys.stderr.write(f"headlight: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code
