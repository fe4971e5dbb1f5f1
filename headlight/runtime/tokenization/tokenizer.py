"""From text to ids and, where asked, to tokens with their places in the text."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import tokenizers

from headlight.errors import BundleError, InvalidInput
from headlight.results import TokenList
from headlight.runtime.bundle.file_contents import File
from headlight.runtime.bundle.tokenizer_limit import TokenizerLimit
from headlight.runtime.tokenization.special_tokens import Spelled, as_plain_text
from headlight.runtime.tokenization.tokenizer_probe import is_panic, limit_of
from headlight.runtime.tokenization.truncation import Truncation, cut
from headlight.runtime.values import Ids, Tokenized
from headlight.spec import SpecialTokens

T = TypeVar("T")
# Some 50 µs to read: to let other threads run meanwhile, and to have one's turn back, takes longer.
SHORT_CHARACTERS = 512


class Tokenizer:
    """A bundle's tokenizer.json. Thread-safe; lets other threads run while it works, but for a short text alone."""

    def __init__(
        self, path: File | Path, max_length: int, *, include_prompt: bool = True, segments: bool = True
    ) -> None:
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
        self._file = path.name
        self._plain = self._load(path)
        self._plain.no_truncation()
        special = self._plain.num_special_tokens_to_add(is_pair=False)
        if special >= max_length:  # the library would not truncate at all
            problem = f"puts {special} special tokens around a text, and the model takes {max_length}; allow more"
            raise BundleError(problem, path.name)
        self._spelled = Spelled(self._plain)
        self._readers: dict[SpecialTokens, tokenizers.Tokenizer] = {
            "parse": self._plain,
            "text": as_plain_text(self._plain, self._spelled.spellings),
        }
        self._include_prompt = include_prompt
        self._segments = segments
        self._prompt_ids = functools.lru_cache(maxsize=64)(self._count_prompt)

    @staticmethod
    def _load(path: File | Path) -> tokenizers.Tokenizer:
        try:
            tokenizer = tokenizers.Tokenizer.from_buffer(path.read_bytes())
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
        special_tokens: SpecialTokens = "parse",
    ) -> Tokenized:
        """Tokenise one text, or two that are seen together, special tokens included.

        Args:
            text: at least one character.
            second: the other text of a pair, at least one character. Truncation cuts whichever is longer.
            prompt: what to put before a lone text. Truncation leaves it whole, and offsets count the text without it.
            truncation: what to do beyond max_length tokens.
            limit: False to accept any length and never truncate.
            with_info: also return pieces and offsets.
            special_tokens: "parse" makes special tokens of those spelled out in the text or the prompt; "text" reads plain text.

        Raises:
            InvalidInput: empty, without a single token of its own, or too long; `field` is empty, or "first" or "second" of a
                pair, for the caller to complete.
        """
        value = text if second is None else (text, second)
        found = self.encode_each(
            [value],
            prompt=prompt,
            truncation=truncation,
            limit=limit,
            with_info=with_info,
            special_tokens=special_tokens,
        )
        return next(found)

    def encode_each(
        self,
        values: Sequence[str | tuple[str, str]],
        *,
        prompt: str = "",
        truncation: Truncation = "refuse",
        limit: bool = True,
        with_info: bool = False,
        special_tokens: SpecialTokens = "parse",
    ) -> Iterator[Tokenized]:
        """The same of many, in one call of the library: other threads need not wait for each in turn.

        Args:
            values: texts, and pairs of texts.
            prompt, truncation, limit, with_info, special_tokens: see `encode`; pairs have no prompt before them.

        Yields:
            One result for each, in their order.

        Raises:
            InvalidInput: see `encode`; for the first that cannot be encoded, when its turn comes.
        """
        bare = not (prompt or with_info)  # nobody asks where in the text the tokens are, which is a quarter of the work
        read = [prompt + value if isinstance(value, str) else value for value in values]
        kept = truncation if limit else None
        for value, whole, encoding in zip(values, read, self._read(read, special_tokens, bare=bare), strict=True):
            _check_characters(value)
            special = self._special(encoding, whole, special_tokens) if with_info else None
            if prompt and isinstance(value, str):
                left_out = 0 if self._include_prompt else self._prompt_ids(prompt, special_tokens)
                yield self._with_prompt(prompt, encoding, kept, special, left_out)
            else:
                yield self._without_prompt(value, encoding, kept, special)

    def _read(
        self, values: Sequence[str | tuple[str, str]], special_tokens: SpecialTokens, *, bare: bool
    ) -> Iterable[tokenizers.Encoding]:
        reader = self._readers[special_tokens]
        try:
            if len(values) == 1 and isinstance(values[0], str) and len(values[0]) <= SHORT_CHARACTERS:
                return [reader.encode(values[0])]  # alone of all these it keeps other threads waiting
            found: list[tokenizers.Encoding] = (reader.encode_batch_fast if bare else reader.encode_batch)(values)
            return found
        except BaseException as error:
            if not is_panic(error):
                raise
            if len(values) == 1:
                raise InvalidInput("", "is more than the tokenizer's patterns can read; shorten it") from None
        alone = (self._read([value], special_tokens, bare=bare) for value in values)  # to tell which it was
        return itertools.chain.from_iterable(alone)

    def _special(
        self, encoding: tokenizers.Encoding, value: str | tuple[str, str], special_tokens: SpecialTokens
    ) -> tuple[bool, ...]:
        """Whether each token is special. In plain text, those around it alone are."""
        if special_tokens == "parse":
            return self._spelled.marks(encoding, value)
        return tuple(map(bool, encoding.special_tokens_mask))

    def _without_prompt(
        self,
        value: str | tuple[str, str],
        encoding: tokenizers.Encoding,
        truncation: Truncation | None,
        special: Sequence[bool] | None,
    ) -> Tokenized:
        """What was read of one input; `truncation` None: any length; `special` None: ids alone are wanted."""
        length, kept = len(encoding), None
        if truncation is not None and length > self.max_length:
            around = np.array(encoding.special_tokens_mask, dtype=np.bool_)
            second = np.zeros(length, dtype=np.bool_)
            if not isinstance(value, str):
                second = np.array([text == 1 for text in encoding.sequence_ids])
            kept = cut(around, second, self.max_length, truncation)
        ids = _ids(encoding, kept)
        segments = self._segments_of(encoding, kept)
        if special is None:
            return Tokenized(ids, length, None, segments)
        return Tokenized(ids, length, _info(encoding, kept, special), segments, _words(encoding, kept))

    def _with_prompt(
        self,
        prompt: str,
        encoding: tokenizers.Encoding,
        truncation: Truncation | None,
        special: Sequence[bool] | None,
        left_out: int,
    ) -> Tokenized:
        """The same of a text and a prompt before it, of which pooling leaves so many tokens out."""
        length = len(encoding)
        around = np.array(encoding.special_tokens_mask, dtype=np.bool_)
        ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
        # A token that has characters of both belongs to the text.
        beyond = np.flatnonzero(~around & (ends > len(prompt)))
        of_prompt = ~around & (np.arange(length) < (beyond[0] if len(beyond) else length))
        kept = None
        if truncation is not None and length > self.max_length:
            none = np.zeros(length, dtype=np.bool_)
            kept = cut(around | of_prompt, none, self.max_length, truncation, prompt=True)
        ids = _ids(encoding, kept)
        info = words = None
        if special is not None:
            info = _without_prompt(_info(encoding, kept, special), len(prompt), _at(of_prompt.tolist(), kept))
            words = _words(encoding, kept)
        left_out = min(left_out, len(ids) - 1)
        return Tokenized(ids, length, info, self._segments_of(encoding, kept), words, int(of_prompt.sum()), left_out)

    def _segments_of(self, encoding: tokenizers.Encoding, kept: Ids | None) -> Ids | None:
        return np.asarray(_at(encoding.type_ids, kept), dtype=np.int64) if self._segments else None

    def _count_prompt(self, prompt: str, special_tokens: SpecialTokens) -> int:
        """How many tokens sentence-transformers takes a prompt for: all of it tokenised alone, less a special one at its end."""
        around = self._readers[special_tokens].encode(prompt).special_tokens_mask
        return len(around) - int(bool(around) and around[-1] == 1)

    def measure(self, most: int) -> TokenizerLimit:
        """Return the longest text, of up to `most` characters, that is read at a bounded cost. Raises as `limit_of` does."""
        return limit_of(self._plain, self._file, self.max_length, most)

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


def _info(encoding: tokenizers.Encoding, kept: Ids | None, special: Sequence[bool]) -> TokenList:
    around, spans = _at(encoding.special_tokens_mask, kept), _at(encoding.offsets, kept)
    offsets = [(0, 0) if added else span for span, added in zip(spans, around, strict=True)]
    return TokenList(
        ids=tuple(_at(encoding.ids, kept)),
        pieces=tuple(_at(encoding.tokens, kept)),
        starts=tuple(start for start, _ in offsets),
        ends=tuple(end for _, end in offsets),
        special=tuple(_at(special, kept)),
        segments=tuple(_texts(_at(encoding.sequence_ids, kept))),
    )


def _texts(sequences: Sequence[int | None]) -> list[int]:
    """Which text of a pair each token is of: 0 or 1. A special token around texts goes with the text before it.

    Token types would not tell: RoBERTa has one for both texts.
    """
    texts, last = [], 0
    for text in sequences:
        last = last if text is None else text
        texts.append(last)
    return texts


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
