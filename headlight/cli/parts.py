"""Commands of other packages: `headlight serve` and `headlight export`.

Each package is loaded when its command is called: the only imports that go upwards.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from headlight.cli.files import UsageError
from headlight.extras import MissingExtra

# Command: the module with `main(arguments)`, and its line in --help.
PARTS = {
    "serve": ("headlight_service.__main__", "serve a bundle over gRPC"),
    "export": ("headlight_export.__main__", "turn a checkpoint or a Hugging Face folder into a bundle"),
}

MODEL_PACKAGE = "headlight_model"  # never imported: its folder holds the shipped model


def run_part(name: str, arguments: Sequence[str]) -> int:
    """Load the package of a command and run it.

    Args:
        name: of the command, a key of PARTS.
        arguments: the rest of the command line.

    Returns:
        The exit code.

    Raises:
        UsageError: a library is missing; names the extra that brings it.
    """
    try:
        code: int = importlib.import_module(PARTS[name][0]).main(arguments)
    except MissingExtra as error:
        raise UsageError(str(error)) from None
    return code
