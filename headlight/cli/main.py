"""Entry of the command `headlight`.

`headlight serve` and `headlight export` belong to other packages: the only upward imports. Each
command loads its modules when it runs, because `headlight serve` sets variables that gRPC reads on
import.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from headlight.cli.shipped_model import PartError, with_bundle
from headlight.extras import MissingExtra

# Command: the module with `main(arguments)`, and its line in --help.
PARTS = {
    "serve": ("headlight_service.__main__", "serve a bundle over gRPC"),
    "export": (
        "headlight_export.__main__",
        "turn a checkpoint or a Hugging Face folder into a bundle",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        Its exit code. 2, after one line on standard error: another package's command lacks an extra
        or its model.
    """
    arguments = sys.argv[1:] if argv is None else [*argv]
    name = arguments[0] if arguments else ""
    try:
        part = importlib.import_module(
            PARTS[name][0] if name in PARTS else "headlight.cli.commands"
        )
        if name in PARTS:
            arguments = with_bundle(arguments[1:], os.environ) if name == "serve" else arguments[1:]
    except (MissingExtra, PartError) as error:
        sys.stderr.write(f"headlight: {error}\n")
        return 2
    code: int = part.main(arguments)
    return code
