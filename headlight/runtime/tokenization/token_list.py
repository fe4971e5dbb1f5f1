"""Tokens of one input and of its prompt, with their places in its text, and the words that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headlight.results import TokenList
from headlight.runtime.values import Ids

T = TypeVar("T")


def prompt_tokens(encoding: tokenizers.Encoding, characters: int) -> NDArray[np.bool_]:
    """bool [n]: the tokens of a prompt of so many characters. A token that has characters of both belongs to the text."""
    around = np.array(encoding.special_tokens_mask, dtype=np.bool_)
    ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
    beyond = np.flatnonzero(~around & (ends > characters))
    return ~around & (np.arange(len(encoding)) < (beyond[0] if len(beyond) else len(encoding)))


def token_list(
    encoding: tokenizers.Encoding,
    kept: Ids | None,
    special: Sequence[bool],
    of_prompt: NDArray[np.bool_] | None,
    characters: int,
) -> TokenList:
    """What is known of the tokens of one input.

    Args:
        encoding: of the input, after its prompt.
        kept: int64 [m], the tokens that are left; None: all.
        special: whether each token is special.
        of_prompt: bool [n], the tokens of a prompt; None: there is none.
        characters: of the prompt; offsets are counted in the text behind it.
    """
    around, spans = _at(encoding.special_tokens_mask, kept), _at(encoding.offsets, kept)
    offsets = [(0, 0) if added else span for span, added in zip(spans, around, strict=True)]
    return TokenList(
        ids=tuple(_at(encoding.ids, kept)),
        pieces=tuple(_at(encoding.tokens, kept)),
        starts=tuple(max(0, start - characters) for start, _ in offsets),
        ends=tuple(max(0, end - characters) for _, end in offsets),
        special=tuple(_at(special, kept)),
        segments=tuple(_texts(_at(encoding.sequence_ids, kept))),
        prompt=() if of_prompt is None else tuple(_at(of_prompt.tolist(), kept)),
    )


def word_numbers(encoding: tokenizers.Encoding, kept: Ids | None) -> Ids:
    """int64 [n]: the number of each token's word; every special token has its own."""
    belongs = zip(
        _at(encoding.sequence_ids, kept),
        _at(encoding.word_ids, kept),
        _at(encoding.special_tokens_mask, kept),
        strict=True,
    )
    words, last, number = [], None, -1
    for text, word, special in belongs:
        here = None if special or word is None else (text, word)
        number += here is None or here != last
        last = here
        words.append(number)
    return np.array(words, dtype=np.int64)


def _at(values: Sequence[T], kept: Ids | None) -> Sequence[T]:
    """Those of the tokens kept; None: of all."""
    return values if kept is None else [values[at] for at in kept.tolist()]


def _texts(sequences: Sequence[int | None]) -> list[int]:
    """Which text of a pair each token is of: 0 or 1. A special token around texts goes with the text before it.

    Token types would not tell: RoBERTa has one for both texts.
    """
    texts, last = [], 0
    for text in sequences:
        last = last if text is None else text
        texts.append(last)
    return texts
