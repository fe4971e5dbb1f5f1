"""Extras: libraries that parts of Headlight need and a bare install lacks."""

from __future__ import annotations

import importlib.util

# The package is on no index yet. Only this line of the code has the install command.
INSTALL = "pip install '.[{extra}]' in a clone of Headlight"


class MissingExtra(ImportError):
    """A part of Headlight needs libraries that are not installed."""


def remedy(extra: str) -> str:
    """Return the command that installs an extra."""
    return INSTALL.format(extra=extra)


def require(part: str, extra: str, *libraries: str) -> None:
    """Check that the libraries of an extra can be imported, without importing them.

    Args:
        part: the part that needs them, in the user's terms.
        extra: the extra that installs them.
        libraries: names of modules.

    Raises:
        MissingExtra: a library is missing; the message names the first and the extra.
    """
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise MissingExtra(
                f"{part} needs {library}, which is not installed: {remedy(extra)}", name=library
            )
