"""Tables and numbers as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as Markdown."""
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def number(value: float | None, form: str = ".1f") -> str:
    """Format a number; empty if it does not apply."""
    return "" if value is None else format(value, form)
