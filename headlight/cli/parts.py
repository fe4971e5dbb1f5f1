"""Commands of other packages: `headlight serve` and `headlight export`.

Each package is loaded when its command is called: the only imports that go upwards.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from headlight.extras import MissingExtra

# Command: the module with `main(arguments)`, and its line in --help.
PARTS = {
    "serve": ("headlight_service.__main__", "serve a bundle over gRPC"),
    "export": ("headlight_export.__main__", "turn a checkpoint or a Hugging Face folder into a bundle"),
}

MODEL_PACKAGE = "headlight_model"  # never imported: its folder holds the shipped model


class PartError(Exception):
    """A command of another package cannot be run; says why and what to do."""


def run_part(name: str, arguments: Callable[[], Sequence[str]]) -> int:
    """Load the package of a command and run it.

    Args:
        name: of the command, a key of PARTS.
        arguments: gives the rest of the command line; asked once the package is loaded. May raise PartError.

    Returns:
        The exit code: 2, after one line on standard error, if an extra or the model is missing.
    """
    try:
        part = importlib.import_module(PARTS[name][0])
        given = arguments()
    except (MissingExtra, PartError) as error:
        sys.stderr.write(f"headlight: {error}\n")
        return 2
    code: int = part.main(given)
    return code
