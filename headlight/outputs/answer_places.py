"""Checks of the layers, heads and tokens that an answer names, against the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.outputs.contract import malformed, require
from headlight.spec import Span, TokenChoice

if TYPE_CHECKING:
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Ids


def check_listed(field: str, listed: Sequence[object], expected: Sequence[object]) -> None:
    """Raise BadAnswer unless a field lists exactly the expected entries."""
    if tuple(listed) != tuple(expected):
        raise malformed(f"{field} is {list(listed)[:20]}, and {list(expected)[:20]} was requested")


def places_of_tokens(
    field: str,
    places: Sequence[pb.TokenIndices],
    counts: Sequence[int],
    choice: TokenChoice | None,
) -> list[Ids | None]:
    """Return the tokens that the rows of each input belong to; None: all.

    Args:
        field: the field that holds them.
        places: tokens of each input; no entries if all tokens were requested.
        counts: tokens of each input.
        choice: the requested tokens; None: a choice of the tokenizer, in the order of the text.

    Raises:
        BadAnswer: they are given although all were requested, or missing although some were. Or
            they are not tokens of their input, or not those requested.
    """
    expected = 0 if choice == "all" else len(counts)
    require(
        len(places) == expected,
        f"{field} names tokens of {len(places)} inputs, and {expected} were expected",
    )
    for chosen, count in zip(places, counts, strict=False):
        check_tokens(field, chosen.indices, count, choice)
        ordered = choice is not None or list(chosen.indices) == sorted(chosen.indices)
        require(ordered, f"{field} names tokens in another order than that of the text")
    return [np.array(chosen.indices) for chosen in places] or [None] * len(counts)


def check_tokens(field: str, tokens: Sequence[int], count: int, choice: TokenChoice | None) -> None:
    """Raise BadAnswer unless tokens are some of `count`, each once, and as requested."""
    some = 0 < len(tokens) == len(set(tokens)) <= count and 0 <= min(tokens) <= max(tokens) < count
    require(some, f"{field} names {len(tokens)} tokens, which are not some of {count}, each once")
    require(
        choice != "pooled" or len(tokens) == 1,
        f"{field} names {len(tokens)} tokens, and the pooled one was requested",
    )
    named = (0,) if choice == "first" else choice
    if isinstance(named, tuple) and not isinstance(named, Span):
        check_listed(field, tokens, [token % count for token in named])
