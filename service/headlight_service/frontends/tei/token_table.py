"""Tokens of a text with offsets in bytes of its UTF-8."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headlight.results import TokenList


class TokenRow(NamedTuple):
    """One token.

    Attributes:
        text: its part of the text; of a special token the vocabulary's spelling.
        start, stop: bytes of the text; None: it stands around the text.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


def token_rows(text: str, tokens: TokenList, *, add_special_tokens: bool) -> Iterator[TokenRow]:
    """Yield the tokens of a text.

    Args:
        text: the text that was tokenised, its prompt included.
        tokens: its tokens, with offsets in code points.
        add_special_tokens: False to leave out the tokens that were put around the text.
    """
    places = _byte_offsets(text)
    rows = zip(tokens.ids, tokens.pieces, tokens.special, tokens.starts, tokens.ends, strict=True)
    for number, piece, special, start, end in rows:
        if not special:
            yield TokenRow(number, text[start:end], False, places[start], places[end])
        elif end:  # spelled out in the text
            yield TokenRow(number, piece, True, places[start], places[end])
        elif add_special_tokens:
            yield TokenRow(number, piece, True, None, None)


def _byte_offsets(text: str) -> Sequence[int]:
    """Return the offset in bytes of each code point, and of the end."""
    if text.isascii():
        return range(len(text) + 1)
    return [0, *itertools.accumulate(len(character.encode()) for character in text)]
