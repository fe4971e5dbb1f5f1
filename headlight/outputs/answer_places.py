"""Checks of the layers, heads and tokens that an answer names, against the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headlight.errors import InvalidInput
from headlight.outputs.contract import malformed, require
from headlight.outputs.maps.resolved_spec import resolve_indices
from headlight.spec import Indices, Span, TokenChoice

if TYPE_CHECKING:
    from headlight.pb import headlight_pb2 as pb


def check_numbers_of(
    field: str, found: Sequence[object], expected: Sequence[object] | None
) -> None:
    """Raise BadAnswer unless a field lists exactly the expected numbers.

    None: no check, because the server should have refused the request.
    """
    if expected is not None and tuple(found) != tuple(expected):
        raise malformed(f"{field} is {list(found)[:20]}, and {list(expected)[:20]} was asked for")


def resolved(indices: Indices, count: int) -> tuple[int, ...] | None:
    """Return absolute numbers of layers or heads, all if none is named; None: they are invalid."""
    try:
        return resolve_indices("", indices, count)
    except InvalidInput:
        return None


def check_places(
    field: str,
    response: pb.EncodeResponse,
    places: Sequence[pb.TokenIndices],
    choice: TokenChoice | None,
) -> None:
    """Check the tokens that rows belong to.

    Args:
        field: the field that holds them.
        response: the answer, with the number of tokens of each input.
        places: tokens of each input; no entries if all tokens were requested.
        choice: the requested tokens; None: a choice of the tokenizer, in the order of the text.

    Raises:
        BadAnswer: they are given although all were requested, or missing although some were. Or
            they are not tokens of their input, or not those requested.
    """
    expected = [] if choice == "all" else response.items
    require(
        len(places) == len(expected),
        f"{field} names tokens of {len(places)} inputs, and {len(expected)} were expected",
    )
    for chosen, item in zip(places, expected, strict=True):
        check_tokens(field, chosen.indices, item.token_count, choice)
        ordered = choice is not None or list(chosen.indices) == sorted(chosen.indices)
        require(ordered, f"{field} names tokens in another order than that of the text")


def check_tokens(field: str, tokens: Sequence[int], count: int, choice: TokenChoice | None) -> None:
    """Raise BadAnswer unless tokens are some of `count`, each once, and as requested."""
    some = 0 < len(tokens) == len(set(tokens)) <= count and 0 <= min(tokens) <= max(tokens) < count
    require(some, f"{field} names {len(tokens)} tokens, which are not some of {count}, each once")
    require(
        choice != "pooled" or len(tokens) == 1,
        f"{field} names {len(tokens)} tokens, and the pooled one was asked for",
    )
    named = (0,) if choice == "first" else choice
    if isinstance(named, tuple) and not isinstance(named, Span):
        check_numbers_of(field, tokens, resolved(named, count))
