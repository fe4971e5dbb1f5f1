"""Griffe extension: one row for each name in a docstring entry such as "heads, layers: ...".

Loaded by mkdocstrings only, as docs/site/zensical.toml names it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# Names with a comma, their text, and its further lines, which are indented deeper.
TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)", re.MULTILINE)


def separated(text: str) -> str:
    """Return a docstring in which each name has its own entry, with the same text."""
    return TOGETHER.sub(
        lambda found: "\n".join(f"{found[1]}{name}: {found[3]}" for name in found[2].split(", ")),
        text,
    )


class Together(griffe.Extension):  # type: ignore[misc]  # not in .venv, which mypy reads
    """Griffe extension that rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = separated(obj.docstring.value)
