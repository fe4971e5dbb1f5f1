"""Commands of other packages: `headlight serve` and `headlight export`.

Each package is loaded when its command is called: the only imports that go upwards.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from headlight.cli.files import UsageError

# Command: module with `main(arguments)`, what --help says, the extra that it needs, and the libraries of that extra.
PARTS = {
    "serve": ("headlight_service.__main__", "serve a bundle over gRPC", "serve"),
    "export": ("headlight_export.__main__", "turn a checkpoint or a Hugging Face folder into a bundle", "export"),
}
OF_RUNTIME = ("onnxruntime", "tokenizers")


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
    module, _, extra = PARTS[name]
    try:
        code: int = importlib.import_module(module).main(arguments)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library.startswith("headlight") and library not in ("headlight_service", "headlight_export"):
            raise
        if name == "export" and library in OF_RUNTIME:
            extra = "export,runtime"
        remedy = f"pip install 'headlight-serving[{extra}]'"
        raise UsageError(f"headlight {name} needs {library}, which is not installed: {remedy}") from None
    return code
