"""Links between tokens of source code: brackets, calls, definitions. Needs no torch."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

IDENTIFIER = re.compile(r"[a-z_]\w+")
WORD = re.compile(r"\w+")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def is_identifier(piece: str) -> bool:
    """Return whether a piece can be a whole name; keywords and pieces inside words cannot."""
    return bool(IDENTIFIER.fullmatch(piece)) and not keyword.iskeyword(piece)


def links(tokens: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, query, key) of the syntax in a source window, as far as its brackets match."""
    texts = [token.removeprefix("##") for token in tokens]
    opened: list[tuple[str, int]] = []
    for place, text in enumerate(texts):
        for mark in text if set(text) <= set(BRACKETS) | set(BRACKETS.values()) else "":
            if mark in BRACKETS:
                opened.append((mark, place))
            elif opened and BRACKETS[opened[-1][0]] == mark:
                start = opened.pop()[1]
                yield "matching bracket", start, place
                yield "matching bracket", place, start
                if mark == ")" and start and is_identifier(texts[start - 1]):
                    yield from (
                        ("call to arguments", start - 1, inside)
                        for inside in range(start + 1, place)
                    )
            else:
                opened.clear()  # begun before the window
        if text in ("def", "class") and not tokens[place].startswith("##"):
            name = range(place + 1, len(texts))
            yield from (
                ("def to name", place, key)
                for key in takewhile(lambda key: WORD.fullmatch(texts[key]), name)
            )
