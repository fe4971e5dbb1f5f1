"""Tokens on the axes of an input's attention: chosen, and grouped into words or spans.

They give the attention's shape and size before anything runs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight import results
from headlight.errors import InvalidInput, Reason
from headlight.outputs.maps.resolved_spec import (
    ATTENTION,
    Choice,
    is_one_token,
)
from headlight.outputs.output import Item
from headlight.spec import POOLING_MODES, STATISTICS, Span, TokenChoice

if TYPE_CHECKING:
    from headlight.runtime.values import Ids, Marks, Tokenized

MOST_KEYS = 1 << 16  # uint16 indices have no more


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of one axis, in their order.

    Attributes:
        tokens: int64 [m], the tokens of the first unit, of the second, ...
        starts: int64 [units], the index in `tokens` of each unit's first token; None: each token is
            a unit.
    """

    tokens: Ids
    starts: Ids | None = None

    @property
    def count(self) -> int:
        """Number of units."""
        return len(self.tokens) if self.starts is None else len(self.starts)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Tokens of one input of `length` tokens that a choice of attention selects.

    Attributes:
        queries, keys: units of the axis; None: every token by itself, in order.
        special: bool [length], special tokens, if the result depends on them; else None.
        left_out: number of tokens at the start that pooling leaves out.
    """

    length: int
    queries: Units | None = None
    keys: Units | None = None
    special: Marks | None = None
    left_out: int = 0


def places_of(item: Item) -> Places:
    """Return the tokens of an item that its choice selects."""
    places: Places | None = item.places.get("attention")
    return Places(len(item.ids), left_out=item.left_out) if places is None else places


def axis_units(units: Units | None, length: int) -> results.Units:
    """Return the tokens of each unit of an axis, for callers; None: each token of the input."""
    if units is None:
        return results.Units.of(range(length))
    starts = () if units.starts is None else units.starts.tolist()
    return results.Units.of(units.tokens.tolist(), starts)


def attention_shape(choice: Choice, places: Places) -> tuple[int, ...]:
    """Return the extents of an item's result, one for each of `choice.axes`."""
    keys = places.length if places.keys is None else places.keys.count
    extents = {
        "pair": len(choice.layers),
        "layer": len(choice.layers),
        "head": len(choice.heads[0]) if choice.heads else 0,
        "query": places.length if places.queries is None else places.queries.count,
        "key": keys,
        "top": min(keys, choice.spec.top_k or 0),
        "statistic": len(STATISTICS),
    }
    return tuple([extents[axis] for axis in choice.axes])


def place(choice: Choice, tokenized: Tokenized) -> Places:
    """Return the tokens of one input that a choice of attention selects.

    Raises:
        InvalidInput: it selects none, or needs details that an input of ids lacks. The error names
            the field of the choice.
    """
    spec, length = choice.spec, len(tokenized.ids)
    if (
        not choice.needs_tokens
        and spec.queries == spec.keys == "all"
        and not (spec.top_k and length > MOST_KEYS)
    ):
        return Places(length, left_out=tokenized.left_out)
    # An input of ids does not mark special tokens, so the statistic "special" is NaN.
    unknown = "statistics" in spec.reduce and tokenized.words is None and not spec.drop_special
    info = known_tokens(tokenized)[0] if choice.needs_tokens and not unknown else None
    special = np.array(info.special) if info is not None else None
    vector = pooled_token(choice.pooling, length, tokenized.left_out)
    sides = list[Units | None]()
    for name, selector in (("queries", spec.queries), ("keys", spec.keys)):
        field = f"{ATTENTION}.{name}"
        tokens = select(field, selector, length, info, vector)
        if spec.drop_special and special is not None:
            tokens = np.flatnonzero(~special) if tokens is None else tokens[~special[tokens]]
        if tokens is not None and not len(tokens):
            raise InvalidInput(field, Reason.NONE_LEFT)
        sides.append(_units(choice, tokens, tokenized))
    if spec.top_k and (sides[1] or Units(tokenized.ids)).count > MOST_KEYS:
        raise InvalidInput(f"{ATTENTION}.top_k", Reason.TOO_MANY_KEYS, most=MOST_KEYS)
    of_one = is_one_token(choice.pooling) and "queries" in choice.reduced
    if spec.drop_special and of_one and special is not None and special[vector]:
        raise InvalidInput(f"{ATTENTION}.drop_special", Reason.POOLED_TOKEN_DROPPED)
    return Places(length, sides[0], sides[1], special, tokenized.left_out)


def select(
    field: str, selector: TokenChoice, length: int, info: results.TokenList | None, vector: int
) -> Ids | None:
    """Return the tokens that a selector names, in its order: int64 [m]; None: all.

    `vector` is the token that "pooled" selects.

    Raises:
        InvalidInput: it names none, one twice, or one that does not exist.
    """
    if selector == "all":
        return None
    if selector == "first":
        return np.zeros(1, dtype=np.int64)
    if selector == "pooled":
        return np.array([vector])
    if selector == "special":
        tokens = np.flatnonzero(info.special) if info is not None else np.zeros(0, dtype=np.int64)
        if not len(tokens):
            raise InvalidInput(field, Reason.NO_SPECIAL_TOKEN)
        return tokens
    if isinstance(selector, Span):
        return within(field, selector, characters_of(info))
    if len(selector) > length:
        raise InvalidInput(field, Reason.MORE_THAN_TOKENS, count=len(selector), tokens=length)
    for at, index in enumerate(selector):
        if not -length <= index < length:
            raise InvalidInput(f"{field}[{at}]", Reason.NO_SUCH_TOKEN, value=index, last=length - 1)
    tokens = np.array(selector, dtype=np.int64) % length
    if len(np.unique(tokens)) != len(tokens):
        raise InvalidInput(field, Reason.TWICE_FROM_THE_END)
    return tokens


def characters_of(info: results.TokenList | None) -> Ids:
    """Return each token's first character, end, and text: int64 [3, n].

    Raises:
        InvalidInput: the input is ids.
    """
    if info is None:
        raise InvalidInput(ATTENTION, Reason.TOKENS_UNKNOWN)
    return np.array([info.starts, info.ends, info.segments])


def within(field: str, span: Span, characters: Ids) -> Ids:
    """Return the tokens that share a character with a span: int64 [m].

    `characters` comes from `characters_of`.

    Raises:
        InvalidInput: no token does.
    """
    if span.end <= span.start:
        raise InvalidInput(field, Reason.EMPTY_SPAN, start=span.start, end=span.end)
    starts, ends, texts = characters
    tokens = np.flatnonzero((texts == span.text) & (starts < span.end) & (ends > span.start))
    if not len(tokens):
        raise InvalidInput(
            field, Reason.SPAN_WITHOUT_TOKEN, start=span.start, last=span.end - 1, text=span.text
        )
    return tokens


def pooled_token(pooling: str, length: int, left_out: int = 0) -> int:
    """Return the token whose vector is the pooled vector, if `is_one_token(pooling)`.

    For other poolings the number means nothing. `left_out` is the number of tokens at the start
    that pooling leaves out.

    Raises:
        ValueError: the pooling is unknown, which is a bug.
    """
    if pooling == "cls":
        return left_out
    if pooling not in POOLING_MODES:
        raise ValueError(f"pooling is {pooling!r}; known are {', '.join(POOLING_MODES)}")
    return length - 1


def _units(choice: Choice, tokens: Ids | None, tokenized: Tokenized) -> Units | None:
    spec = choice.spec
    if spec.unit == "token":
        return None if tokens is None else Units(tokens)
    info, words = known_tokens(tokenized)
    chosen = np.arange(len(words)) if tokens is None else tokens
    if spec.unit == "span":
        _check_spans(spec.spans, len(words))
        parts, characters = [], characters_of(info)
        for at, span in enumerate(spec.spans):
            part = within(f"{ATTENTION}.spans[{at}]", span, characters)
            parts.append(part[np.isin(part, chosen)])
            if not len(parts[-1]):
                raise InvalidInput(f"{ATTENTION}.spans[{at}]", Reason.SPAN_NOT_CHOSEN)
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return Units(np.concatenate(parts), starts)
    numbers = words[chosen]
    return Units(chosen, np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)))


def _check_spans(spans: Sequence[Span], length: int) -> None:
    """Check the number of spans and that none overlap, so that units are no larger than their text.

    Raises:
        InvalidInput: there are more spans than tokens, or two overlap.
    """
    if len(spans) > length:
        raise InvalidInput(
            f"{ATTENTION}.spans", Reason.MORE_SPANS_THAN_TOKENS, count=len(spans), tokens=length
        )
    for one, other in itertools.pairwise(sorted(spans, key=lambda span: (span.text, span.start))):
        if one.text == other.text and other.start < one.end:
            both = f"{one.start} .. {one.end} and {other.start} .. {other.end}"
            raise InvalidInput(f"{ATTENTION}.spans", Reason.OVERLAP, both=both)


def known_tokens(tokenized: Tokenized) -> tuple[results.TokenList, Ids]:
    """Return the tokens of an input and the numbers of their words.

    Raises:
        InvalidInput: the input is ids.
    """
    if tokenized.info is None or tokenized.words is None:
        raise InvalidInput(ATTENTION, Reason.TOKENS_UNKNOWN)
    return tokenized.info, tokenized.words
