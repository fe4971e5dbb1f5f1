"""From text to ids and, where asked, to tokens with their places in the text."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import tokenizers

from headlight.errors import BundleError, InvalidInput
from headlight.results import TokenList
from headlight.runtime.truncation import Truncation, cut
from headlight.runtime.values import Ids, Tokenized

T = TypeVar("T")
# Some 50 µs to read: to let other threads run meanwhile, and to have one's turn back, takes longer.
SHORT_CHARACTERS = 512


class Tokenizer:
    """A bundle's tokenizer.json. Thread-safe; lets other threads run while it works, but for a short text alone."""

    def __init__(self, path: Path, max_length: int, *, include_prompt: bool = True, segments: bool = True) -> None:
        """Load.

        Args:
            path: tokenizer.json.
            max_length: tokens, special ones included, that truncation leaves.
            include_prompt: whether the tokens of prompts count in pooling.
            segments: whether the model knows any; else they are not read, but where all that is known of tokens is wanted.

        Raises:
            BundleError: the file is not one the tokenizers library reads, or `max_length` leaves no room beside special tokens.
        """
        self.max_length = max_length
        self._plain = self._load(path)
        self._plain.no_truncation()
        special = self._plain.num_special_tokens_to_add(is_pair=False)
        if special >= max_length:  # the library would not truncate at all
            problem = f"puts {special} special tokens around a text, and the model takes {max_length}; allow more"
            raise BundleError(problem, path.name)
        self._include_prompt = include_prompt
        self._segments = segments
        self._prompt_ids = functools.lru_cache(maxsize=64)(self._count_prompt)

    @staticmethod
    def _load(path: Path) -> tokenizers.Tokenizer:
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception:  # the library raises bare Exception
            raise BundleError("is not a tokenizer that the tokenizers library can read", path.name) from None
        tokenizer.no_padding()
        return tokenizer

    def encode(
        self,
        text: str,
        second: str | None = None,
        *,
        prompt: str = "",
        truncation: Truncation = "refuse",
        limit: bool = True,
        with_info: bool = False,
    ) -> Tokenized:
        """Tokenise one text, or two that are seen together, special tokens included.

        Args:
            text: at least one character.
            second: the other text of a pair, at least one character. Truncation cuts whichever is longer.
            prompt: what to put before a lone text. Truncation leaves it whole, and offsets count the text without it.
            truncation: what to do beyond max_length tokens.
            limit: False to accept any length and never truncate.
            with_info: also return pieces and offsets.

        Raises:
            InvalidInput: empty, without a single token of its own, or too long; `field` is empty, or "first" or "second" of a
                pair, for the caller to complete.
        """
        value = text if second is None else (text, second)
        return next(self.encode_each([value], prompt=prompt, truncation=truncation, limit=limit, with_info=with_info))

    def encode_each(
        self,
        values: Sequence[str | tuple[str, str]],
        *,
        prompt: str = "",
        truncation: Truncation = "refuse",
        limit: bool = True,
        with_info: bool = False,
    ) -> Iterator[Tokenized]:
        """The same of many, in one call of the library: other threads need not wait for each in turn.

        Args:
            values: texts, and pairs of texts.
            prompt, truncation, limit, with_info: see `encode`; pairs have no prompt before them.

        Yields:
            One result for each, in their order.

        Raises:
            InvalidInput: see `encode`; for the first that cannot be encoded, when its turn comes.
        """
        bare = not (prompt or with_info)  # nobody asks where in the text the tokens are, which is a quarter of the work
        read = [prompt + value if isinstance(value, str) else value for value in values]
        if len(read) == 1 and isinstance(read[0], str) and len(read[0]) <= SHORT_CHARACTERS:
            encodings = [self._plain.encode(read[0])]  # alone of all these it keeps other threads waiting
        else:
            encodings = (self._plain.encode_batch_fast if bare else self._plain.encode_batch)(read)
        kept = truncation if limit else None
        for value, encoding in zip(values, encodings, strict=True):
            _check_characters(value)
            if prompt and isinstance(value, str):
                yield self._with_prompt(prompt, encoding, kept, with_info)
            else:
                yield self._without_prompt(value, encoding, kept, with_info)

    def _without_prompt(
        self,
        value: str | tuple[str, str],
        encoding: tokenizers.Encoding,
        truncation: Truncation | None,
        with_info: bool,
    ) -> Tokenized:
        """What was read of one input; `truncation` None: any length."""
        length, kept = len(encoding), None
        if truncation is not None and length > self.max_length:
            special = np.array(encoding.special_tokens_mask, dtype=np.bool_)
            second = np.zeros(length, dtype=np.bool_)
            if not isinstance(value, str):
                second = np.array([text == 1 for text in encoding.sequence_ids])
            kept = cut(special, second, self.max_length, truncation)
        ids = _ids(encoding, kept)
        segments = self._segments_of(encoding, kept)
        if not with_info:
            return Tokenized(ids, length, None, segments)
        return Tokenized(ids, length, _info(encoding, kept), segments, _words(encoding, kept))

    def _with_prompt(
        self, prompt: str, encoding: tokenizers.Encoding, truncation: Truncation | None, with_info: bool
    ) -> Tokenized:
        """The same of a text and a prompt before it."""
        length = len(encoding)
        special = np.array(encoding.special_tokens_mask, dtype=np.bool_)
        ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
        # A token that has characters of both belongs to the text.
        beyond = np.flatnonzero(~special & (ends > len(prompt)))
        of_prompt = ~special & (np.arange(length) < (beyond[0] if len(beyond) else length))
        kept = None
        if truncation is not None and length > self.max_length:
            none = np.zeros(length, dtype=np.bool_)
            kept = cut(special | of_prompt, none, self.max_length, truncation, prompt=True)
        ids = _ids(encoding, kept)
        info = words = None
        if with_info:
            info = _without_prompt(_info(encoding, kept), len(prompt), _at(of_prompt.tolist(), kept))
            words = _words(encoding, kept)
        left_out = 0 if self._include_prompt else min(self._prompt_ids(prompt), len(ids) - 1)
        return Tokenized(ids, length, info, self._segments_of(encoding, kept), words, int(of_prompt.sum()), left_out)

    def _segments_of(self, encoding: tokenizers.Encoding, kept: Ids | None) -> Ids | None:
        return np.asarray(_at(encoding.type_ids, kept), dtype=np.int64) if self._segments else None

    def _count_prompt(self, prompt: str) -> int:
        """How many tokens sentence-transformers takes a prompt for: all of it tokenised alone, less a special one at its end."""
        special = self._plain.encode(prompt).special_tokens_mask
        return len(special) - int(bool(special) and special[-1] == 1)

    @property
    def ids(self) -> int:
        """One more than the highest id it can give."""
        return 1 + max(self._plain.get_vocab().values(), default=-1)

    def segments(self, *, pairs: bool) -> int:
        """How many segments (token types) it tells apart, in single texts or also in pairs of texts."""
        return 1 + max(self._plain.encode("a", "b" if pairs else None).type_ids, default=0)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The vocabulary's spelling of each id; empty where the vocabulary has none."""
        return tuple(self._plain.id_to_token(i) or "" for i in ids)


def _check_characters(value: str | tuple[str, str]) -> None:
    """Raises InvalidInput where an input, or a part of a pair, has none."""
    if isinstance(value, str):
        empty = None if value else ""
    else:
        empty = next((field for field, part in zip(("first", "second"), value, strict=True) if not part), None)
    if empty is not None:
        raise InvalidInput(empty, "is empty; send at least one character")


def _at(values: Sequence[T], kept: Ids | None) -> Sequence[T]:
    """Those of the tokens kept; None: of all."""
    return values if kept is None else [values[at] for at in kept.tolist()]


def _ids(encoding: tokenizers.Encoding, kept: Ids | None) -> Ids:
    """int64 [n]. Raises InvalidInput where there is none."""
    ids = np.asarray(_at(encoding.ids, kept), dtype=np.int64)
    if not len(ids):
        raise InvalidInput("", "holds no token that the model knows")
    return ids


def _info(encoding: tokenizers.Encoding, kept: Ids | None) -> TokenList:
    special = tuple(bool(flag) for flag in _at(encoding.special_tokens_mask, kept))
    spans = _at(encoding.offsets, kept)
    offsets = [(0, 0) if added else span for span, added in zip(spans, special, strict=True)]
    return TokenList(
        ids=tuple(_at(encoding.ids, kept)),
        pieces=tuple(_at(encoding.tokens, kept)),
        starts=tuple(start for start, _ in offsets),
        ends=tuple(end for _, end in offsets),
        special=special,
        segments=tuple(_at(encoding.type_ids, kept)),
    )


def _without_prompt(info: TokenList, characters: int, of_prompt: Sequence[bool]) -> TokenList:
    """The tokens of a prompt of so many characters and a text, their offsets counted in the text."""

    def moved(offsets: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(0, offset - characters) for offset in offsets)

    return dataclasses.replace(info, starts=moved(info.starts), ends=moved(info.ends), prompt=tuple(of_prompt))


def _words(encoding: tokenizers.Encoding, kept: Ids | None) -> Ids:
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
