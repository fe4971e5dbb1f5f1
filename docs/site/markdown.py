"""Tables and cells of Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

NOTE = "<!-- Made from the code by `make docs`. -->\n\n"


def cell(text: str) -> str:
    """Return text as a cell of a table: one line, with no markup but backticks."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("*", "\\*")


def code(text: str) -> str:
    """Return text as code in a cell of a table."""
    return f"`{text}`".replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
