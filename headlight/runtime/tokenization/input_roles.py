"""Tokens of a query or a document, as a model with a vector for each token reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from headlight.results import TokenList
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.values import Ids, Tokenized

NO_RULES = RoleRules()
Spell = Callable[[Sequence[int]], tuple[str, ...]]


def no_pieces(ids: Sequence[int]) -> tuple[str, ...]:
    """Return the spellings of ids without a tokenizer: none."""
    return ()


def in_role(given: Tokenized, rules: RoleRules, spell: Spell, *, marked: bool) -> Tokenized:
    """Return an input with a marker behind its first token, and filled up.

    Args:
        given: without both.
        rules: of its role.
        spell: returns the vocabulary's spellings of ids.
        marked: True if the input has its marker: ids.
    """
    if rules is NO_RULES:  # the usual case
        return given
    if not marked and rules.marker is not None:
        given = _inserted(given, 1, rules.marker, 1, spell)
        if given.left_out:
            given = given._replace(left_out=given.left_out + 1)
        given = given._replace(original_length=given.original_length + 1)
    count, occluded = len(given.ids), tuple[int, ...]()
    if rules.expansion is not None and count < rules.expanded_length:
        given = _inserted(given, count, rules.expansion, rules.expanded_length - count, spell)
        given = given._replace(original_length=max(given.original_length, rules.expanded_length))
        occluded = () if rules.attend_to_expansion else tuple(range(count, rules.expanded_length))
    matched = None
    if rules.skiplist:
        skipped = np.isin(given.ids[:count], rules.skiplist)
        matched = np.flatnonzero(~np.append(skipped, np.zeros(len(given.ids) - count, bool)))
    return given._replace(occluded=occluded, matched=matched)


def _inserted(given: Tokenized, at: int, token: int, count: int, spell: Spell) -> Tokenized:
    """Return an input with a special token, `count` times, at a place."""

    def put(values: Ids | None, value: int) -> Ids | None:
        return None if values is None else np.insert(values, at, [value] * count)

    words = given.words
    if words is not None:  # each special token is a word of its own
        first = int(words[at - 1]) + 1 if at else 0
        behind = words[at:] + count
        words = np.concatenate([words[:at], np.arange(first, first + count), behind])
    info = given.info and _with_special(given.info, at, token, count, spell)
    ids = np.insert(given.ids, at, [token] * count)
    return given._replace(ids=ids, segments=put(given.segments, 0), words=words, info=info)


def _with_special(info: TokenList, at: int, token: int, count: int, spell: Spell) -> TokenList:
    pieces = spell([token]) * count if info.pieces else ()
    zeros = (0,) * count
    added = TokenList((token,) * count, pieces, zeros, zeros, (True,) * count, zeros)
    names = [field.name for field in dataclasses.fields(info)]
    olds, news = ([getattr(each, name) for name in names] for each in (info, added))
    return TokenList(*((*old[:at], *new, *old[at:]) for old, new in zip(olds, news, strict=True)))
