"""Details of an input's tokens: prompt, places, words, and special tokens spelled out as "[SEP]".

Special tokens spelled out in a text are either parsed or read as plain text.

`encode_special_tokens` of the tokenizers library keeps its table of added tokens away from a text.
The model after it may still know a spelling: Unigram finds any piece, WordLevel and WordPiece find
whole words. Such spellings are cut after their first character before the model sees them.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers

from headlight.results import TokenList
from headlight.runtime.tokenization.pair_encoding import Encoding
from headlight.runtime.values import Ids, Marks
from headlight.spec import SpecialTokens

T = TypeVar("T")
# A noncharacter, which no vocabulary has: the model treats it like any unknown text.
UNKNOWN = "\U0010ffff"


class Spelled:
    """The special tokens of a tokenizer, by id, with their spellings."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Collect the tokens declared special, and those put around texts."""
        added = tokenizer.get_added_tokens_decoder()
        around = tokenizer.post_process(tokenizers.Encoding(), tokenizers.Encoding())
        self.spellings = {number: token.content for number, token in added.items() if token.special}
        self.spellings |= {
            number: tokenizer.id_to_token(number) or ""
            for number, special in zip(around.ids, around.special_tokens_mask, strict=True)
            if special
        }
        # An unknown word has such an id too; only its characters distinguish them.
        self._unknown = self.spellings.keys() & set(_ids(tokenizer, UNKNOWN))

    def marks(
        self,
        encoding: Encoding,
        value: str | tuple[str, str],
        special_tokens: SpecialTokens,
    ) -> tuple[bool, ...]:
        """Return whether each token is special: put around the text, or spelled out and parsed.

        Args:
            encoding: encoding by the tokenizer for `special_tokens`.
            value: the text or pair of texts.
            special_tokens: "text": only those around the text are special.
        """
        if special_tokens == "text":
            return tuple(map(bool, encoding.special_tokens_mask))
        texts = (value,) if isinstance(value, str) else value
        tokens = zip(
            encoding.ids,
            encoding.special_tokens_mask,
            encoding.offsets,
            encoding.sequence_ids,
            strict=True,
        )
        known = self.spellings.keys() - self._unknown
        return tuple(
            bool(added)
            or number in known
            or (
                number in self._unknown
                and texts[text or 0][start:end].strip() == self.spellings[number]
            )
            for number, added, (start, end), text in tokens
        )


def as_plain_text(
    tokenizer: tokenizers.Tokenizer, spellings: Mapping[int, str]
) -> tokenizers.Tokenizer:
    """Return a tokenizer with the same model that reads special tokens in a text as plain text.

    Threads share a tokenizer, so `encode_special_tokens` cannot be set for one call and reset.
    """
    plain = tokenizers.Tokenizer(tokenizer.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor"):
        if (value := getattr(tokenizer, part)) is not None:
            setattr(plain, part, value)
    plain.encode_special_tokens = True
    # In order, so that tokens outside of the model's vocabulary get the same ids.
    added = sorted(tokenizer.get_added_tokens_decoder().items())
    for special, group in itertools.groupby(
        (token for _, token in added), key=lambda token: token.special
    ):
        (plain.add_special_tokens if special else plain.add_tokens)(list(group))
    known = [
        text
        for number, text in spellings.items()
        if len(text) > 1 and number in _ids(tokenizer, text)
    ]
    if known:
        cuts = _cuts(known)
        before = tokenizer.pre_tokenizer
        plain.pre_tokenizer = cuts if before is None else pre_tokenizers.Sequence([before, cuts])
    return plain


def _ids(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    """Return the model's ids for a text, without any other step."""
    try:
        return [token.id for token in tokenizer.model.tokenize(text)]
    except Exception:  # the library raises bare Exception if there is no token for unknown words
        return []


def _cuts(spellings: Collection[str]) -> pre_tokenizers.PreTokenizer:
    """Return a pre-tokenizer that cuts each spelling after its first character, at any place."""
    groups = itertools.groupby(sorted(spellings), key=operator.itemgetter(0))
    pattern = "|".join(
        f"{re.escape(first)}(?={_any_of([text[1:] for text in group])})" for first, group in groups
    )
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "merged_with_previous")


def _any_of(texts: Collection[str]) -> str:
    """Return a pattern that matches if one of these texts is at a position.

    Common beginnings are written once. With a branch for each of a thousand texts, every possible
    beginning would cost a thousand comparisons.
    """
    common = os.path.commonprefix(list(texts))  # noqa: RUF071  # of characters, not of folders
    if common in texts:  # longer ones match nothing more
        return re.escape(common)
    groups = itertools.groupby(
        sorted(text[len(common) :] for text in texts), key=operator.itemgetter(0)
    )
    return f"{re.escape(common)}(?:{'|'.join(_any_of(list(group)) for _, group in groups)})"


def prompt_tokens(encoding: Encoding, characters: int) -> Marks:
    """Return the tokens of a prompt of so many characters: bool [n].

    A token with characters of both prompt and text belongs to the text. The prompt of a pair goes
    before its first text.
    """
    first = np.array([text == 0 for text in encoding.sequence_ids], dtype=np.bool_)
    first &= ~np.array(encoding.special_tokens_mask, dtype=np.bool_)
    ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
    beyond = np.flatnonzero(first & (ends > characters))
    return first & (np.arange(len(encoding)) < (beyond[0] if len(beyond) else len(encoding)))


def token_list(
    encoding: Encoding,
    kept: Ids | None,
    special: Sequence[bool],
    of_prompt: Marks | None,
    characters: int,
) -> TokenList:
    """Return the details of one input's tokens.

    Args:
        encoding: encoding of the prompt and the input.
        kept: int64 [m], the tokens that are left; None: all.
        special: True for each special token.
        of_prompt: bool [n], the tokens of a prompt; None: there is none.
        characters: length of the prompt; offsets are counted in the text after it, which is the
            first of a pair.
    """
    texts = _at(encoding.sequence_ids, kept)
    prompts = [0 if text else characters for text in texts]
    around, spans = _at(encoding.special_tokens_mask, kept), _at(encoding.offsets, kept)
    offsets = [(0, 0) if added else span for span, added in zip(spans, around, strict=True)]
    return TokenList(
        ids=tuple(_at(encoding.ids, kept)),
        pieces=tuple(_at(encoding.tokens, kept)),
        starts=tuple(max(0, start - n) for (start, _), n in zip(offsets, prompts, strict=True)),
        ends=tuple(max(0, end - n) for (_, end), n in zip(offsets, prompts, strict=True)),
        special=tuple(_at(special, kept)),
        segments=tuple(_texts(texts)),
        prompt=() if of_prompt is None else tuple(_at(of_prompt.tolist(), kept)),
    )


def word_numbers(encoding: Encoding, kept: Ids | None) -> Ids:
    """Return the number of each token's word: int64 [n]; every special token has its own."""
    belongs = zip(
        _at(encoding.sequence_ids, kept),
        _at(encoding.word_ids, kept),
        _at(encoding.special_tokens_mask, kept),
        strict=True,
    )
    words = [None if special or word is None else (text, word) for text, word, special in belongs]
    begins = [word is None or word != last for last, word in itertools.pairwise([None, *words])]
    return np.cumsum(begins, dtype=np.int64) - 1


def _at(values: Sequence[T], kept: Ids | None) -> Sequence[T]:
    """Return the values of the kept tokens; None: all."""
    return values if kept is None else [values[at] for at in kept.tolist()]


def _texts(sequences: Iterable[int | None]) -> list[int]:
    """Return the text of a pair that each token belongs to: 0 or 1.

    A special token around texts belongs to the text before it. Token types cannot show this:
    RoBERTa has one for both texts.
    """
    return list(
        itertools.accumulate(
            sequences, lambda last, text: last if text is None else text, initial=0
        )
    )[1:]
