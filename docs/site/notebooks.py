"""Notebooks as pages: their text, their code and the outputs that they were committed with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUTPUT = "{ .text .output }"


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown, ending in a link to its file."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [part for cell in cells for part in cell_parts(cell)]
    parts.append(f'<a href="{path.name}" download>Download this notebook</a>')
    return "\n\n".join(parts) + "\n"


def cell_parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the source of a cell and its outputs as Markdown."""
    source = joined(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield fenced("python", source)
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:  # one line: a blank one would end the HTML
            yield joined(data["text/html"]).replace("\n", "&#10;")
        else:
            yield fenced(OUTPUT, joined(output.get("text") or data["text/plain"]))


def joined(text: str | list[str]) -> str:
    """Return text that a notebook may hold as a list of lines."""
    return "".join(text).rstrip()


def fenced(language: str, code: str) -> str:
    """Return a block of code that may hold a fence of three backticks."""
    return f"````{language}\n{code}\n````"
