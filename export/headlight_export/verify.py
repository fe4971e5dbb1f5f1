"""Entry point of `headlight verify`."""

from __future__ import annotations

from collections.abc import Sequence

from headlight_export.__main__ import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `headlight_export.verify_command.main` as `headlight_export.__main__` does the export."""
    return run("verify", "headlight_export.verify_command", arguments)
