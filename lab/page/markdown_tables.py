"""Tables of a page in Markdown, and how their cells look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from lab.results import Range


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; the first line holds the titles."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def steps_text(steps: Range) -> str:
    """Format steps, as "600 (550–650)"."""
    if math.isinf(steps.most):
        return "never" if math.isinf(steps.least) else f"{steps.least:.0f} to never"
    return steps.number(0)
