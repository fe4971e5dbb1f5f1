"""Analysis of PromQL expressions without a parser: metrics read, and comparisons."""

from __future__ import annotations

import re

STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
COMMENTS = re.compile(r"#[^\n]*")
SELECTORS = re.compile(r"\{[^{}]*\}")
RANGES = re.compile(r"\[[^\[\]]*\]")
GROUPINGS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
VARIABLES = re.compile(r"\$\w+|\$\{\w+(?::\w+)?\}")
NUMBERS = re.compile(r"(?<![\w:])\d[\w.]*")  # durations too
NAMES = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
COMPARISONS = re.compile(r"(==|!=|>=|<=|>|<)(?!\s*bool\b)")
APART = re.compile(
    r'(\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}|"(?:[^"\\]|\\.)*")'
)  # selectors and strings, in which = and > mean other things


def metric_names(expression: str) -> set[str]:
    """Return the metrics that an expression reads, recorded ones included."""
    bare = STRINGS.sub('""', expression)  # first: a string may hold any of the rest
    for part in (COMMENTS, SELECTORS, RANGES, GROUPINGS, VARIABLES, NUMBERS):
        bare = part.sub(" ", bare)
    return {name for name in NAMES.findall(bare) if name.lower() not in WORDS}


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
