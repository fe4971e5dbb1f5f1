"""PromQL expressions without their conditions, and their selectors, to try them on series."""

from __future__ import annotations

import re

from deploy.prometheus.names import COMMENTS, metric_names

COMPARISONS = re.compile(r"(==|!=|>=|<=|>|<)(?!\s*bool\b)")
APART = re.compile(
    r'(\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}|"(?:[^"\\]|\\.)*")'
)  # selectors and strings, in which = and > mean other things


def without_conditions(expression: str) -> str:
    """Return the expression with comparisons as 0 or 1 and `absent` as a count.

    It is empty only if its metrics are missing. An alert is empty while all is well, even if its
    metrics are misspelt. This form separates the two cases.
    """
    parts = APART.split(expression)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"\babsent\s*\(", "count(", COMPARISONS.sub(r"\1 bool", parts[place]))
    return "".join(parts)


def selectors(expression: str) -> set[str]:
    """Return its metrics with their matchers, without ranges."""
    bare = COMMENTS.sub(" ", expression)
    return {
        match.group().strip()
        for name in metric_names(expression)
        for match in re.finditer(rf"(?<![\w:]){name}(?![\w:]|\s*\()\s*(?:{APART.pattern})?", bare)
    }
