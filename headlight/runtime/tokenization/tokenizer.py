"""Tokenizer: from text to ids and, if requested, to tokens with their places in the text."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tokenizers

from headlight.errors import BundleError, InvalidInput, Reason
from headlight.runtime.bundle.file_contents import File
from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight.runtime.bundle.pair_template import PairTemplate
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.tokenization.input_checks import Cut, Truncation, truncate
from headlight.runtime.tokenization.input_roles import NO_RULES, in_role
from headlight.runtime.tokenization.long_texts import (
    CHARACTERS_PER_TOKEN,
    LongTexts,
    Part,
    Value,
)
from headlight.runtime.tokenization.pair_encoding import Encoding, PairEncoding, PairReader
from headlight.runtime.tokenization.token_kinds import (
    Spelled,
    as_plain_text,
    prompt_tokens,
    token_list,
    word_numbers,
)
from headlight.runtime.tokenization.tokenizer_probe import is_panic, limit_of
from headlight.runtime.values import Tokenized
from headlight.spec import EmptyTexts, SpecialTokens

# A text of this length takes some 50 µs; releasing and reacquiring the GIL takes longer.
SHORT_CHARACTERS = 512
PARTS = ("first", "second")  # of a pair
# A template's pairs are cut in their documents alone.
OF_DOCUMENTS: Mapping[Truncation, Cut] = {
    "refuse": "refuse",
    "cut_end": "cut_document",
    "cut_second": "cut_document",
    "cut_start": "cut_document_start",
}


class Tokenizer:
    """A bundle's tokenizer.json. Thread-safe; only a short text keeps other threads waiting."""

    def __init__(
        self,
        path: File | Path,
        max_length: int,
        *,
        include_prompt: bool = True,
        segments: bool = True,
        pair_template: PairTemplate | None = None,
        prompts_pairs: bool = False,
    ) -> None:
        """Load the tokenizer.

        Args:
            path: tokenizer.json.
            max_length: tokens that truncation leaves, special ones included.
            include_prompt: True if the tokens of prompts count in pooling.
            segments: True if the model has segments; else they are read only for token details.
            pair_template: of pairs; None: the tokenizer's own.
            prompts_pairs: without a template, True if a prompt goes before a pair's first text.

        Raises:
            BundleError: the tokenizers library cannot read the file, or `max_length` leaves no room
                beside special tokens.
        """
        self.max_length = max_length
        try:
            self._plain = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except Exception:  # the library raises bare Exception
            raise BundleError(
                "is not a tokenizer that the tokenizers library can read", path.name
            ) from None
        self._plain.no_padding()
        self._plain.no_truncation()
        special = self._plain.num_special_tokens_to_add(is_pair=False)
        if special >= max_length:  # the library would not truncate at all
            raise BundleError(
                (
                    f"puts {special} special tokens around a text, "
                    f"and the model takes {max_length}; allow more"
                ),
                path.name,
            )
        self._spelled = Spelled(self._plain)
        self._readers: dict[SpecialTokens, tokenizers.Tokenizer] = {
            "parse": self._plain,
            "text": as_plain_text(self._plain, self._spelled.spellings),
        }
        added = self._plain.get_added_tokens_decoder().values()
        # A normalizer may join characters, so a spelling may take several for each of its own.
        self._reach = 1 + 4 * max((len(token.content) for token in added), default=0)
        self._include_prompt = include_prompt
        self._segments = segments
        self._prompt_ids = functools.lru_cache(maxsize=64)(self._count_prompt)
        self._prompts_pairs = prompts_pairs and pair_template is None
        self._pairs: PairReader | None = None
        if pair_template is not None:
            self._pairs = PairReader(pair_template, self._spelled.spellings.values())
            [empty] = self._read([("", "")], "parse", bare=False)
            if len(empty) >= max_length - 1:
                raise BundleError(
                    f"puts {len(empty)} tokens of pair_template around a pair, "
                    f"and the model takes {max_length}; allow more",
                    path.name,
                )

    def takes_prompt(self, kind: str) -> bool:
        """Return whether a prompt can go before an input: "text", "pair" or "ids"."""
        if kind == "pair":
            return self._prompts_pairs if self._pairs is None else self._pairs.takes_prompt
        return kind == "text"

    def around_pair(self, prompt: str) -> int:
        """Return how many characters are read beside the two texts of a pair."""
        template = 0 if self._pairs is None else self._pairs.size
        return template + (len(prompt) if self.takes_prompt("pair") else 0)

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
        empty_texts: EmptyTexts = "refuse",
        most: int | None = None,
        rules: RoleRules = NO_RULES,
    ) -> Tokenized:
        """Tokenise one text or a pair of texts, special tokens included.

        Args:
            text: the text, or the first of a pair.
            second: the other text of a pair. Truncation cuts the longer one; if the model has a
                template of pairs, this one.
            prompt: goes before a single text, or before the first of a pair if the model takes it
                there. Truncation keeps it, and offsets count the text without it.
            truncation: the treatment of more than max_length tokens.
            limit: False to accept any length and never truncate.
            with_info: also return pieces and offsets.
            special_tokens: "parse" makes special tokens of those spelled out in the text or the
                prompt; "text" reads plain text.
            empty_texts: "refuse" refuses an empty text; "encode" reads its prompt and special
                tokens.
            most, rules: see `encode_each`.

        Raises:
            InvalidInput: a text is empty, has no token, or is too long; `field` is
                empty, or "first" or "second" for a pair; the caller completes it.
        """
        value = text if second is None else (text, second)
        return next(
            self.encode_each(
                [value],
                prompt=prompt,
                truncation=truncation,
                limit=limit,
                with_info=with_info,
                special_tokens=special_tokens,
                empty_texts=empty_texts,
                most=most,
                rules=rules,
            )
        )

    def encode_each(
        self,
        values: Sequence[str | tuple[str, str]],
        *,
        prompt: str = "",
        truncation: Truncation = "refuse",
        limit: bool = True,
        with_info: bool = False,
        special_tokens: SpecialTokens = "parse",
        empty_texts: EmptyTexts = "refuse",
        most: int | None = None,
        rules: RoleRules = NO_RULES,
    ) -> Iterator[Tokenized]:
        """Tokenise many inputs in one call of the library, while other threads can run.

        Of an input that is truncated and has more than 64 characters for each token of the model,
        only as many are read as decide which tokens are kept (`long_texts`).

        Args:
            values: texts, and pairs of texts.
            prompt, truncation, limit, with_info, special_tokens, empty_texts: see `encode`.
            most: characters of a truncated input that may be read; None: all.
            rules: of the inputs' role.

        Yields:
            One result for each, in their order.

        Raises:
            InvalidInput: see `encode`; for the first invalid input, after the results before it.
        """
        room = min(rules.max_length or self.max_length, self.max_length)
        room -= rules.marker is not None
        options = (prompt, truncation if limit else None, room, special_tokens, empty_texts)
        finish = functools.partial(in_role, rules=rules, spell=self.pieces, marked=False)
        cut = limit and truncation != "refuse"
        if not (cut and any(self._is_long(value, prompt, most) for value in values)):
            yield from map(finish, self._encode_each(values, *options, with_info=with_info))
            return

        def read(value: Value) -> Encoding:
            value = self._prompted(value, prompt)
            return next(iter(self._read([value], special_tokens, bare=False, prompt=prompt)))

        for value in values:
            part = Part(value)
            if self._is_long(value, prompt, most):
                part = LongTexts(
                    read,
                    room,
                    self._cut(value, truncation),
                    self._before(value, prompt),
                    self._around(value, prompt),
                    most,
                    self._reach,
                ).part(value)
            [tokenized] = self._encode_each([part.value], *options, with_info=with_info)
            yield finish(part.placed(tokenized, value))

    def _cut(self, value: Value, truncation: Truncation) -> Cut:
        """Return how an input is truncated."""
        documents = self._pairs is not None and not isinstance(value, str)
        return OF_DOCUMENTS[truncation] if documents else truncation

    def _is_long(self, value: Value, prompt: str, most: int | None) -> bool:
        """Return whether only a part of an input is read if it is truncated."""
        whole = CHARACTERS_PER_TOKEN * self.max_length
        size = len(value) if isinstance(value, str) else sum(map(len, value))
        return self._around(value, prompt) + size > (whole if most is None else min(whole, most))

    def _encode_each(
        self,
        values: Sequence[Value],
        prompt: str,
        kept: Truncation | None,
        room: int,
        special_tokens: SpecialTokens,
        empty_texts: EmptyTexts,
        *,
        with_info: bool,
    ) -> Iterator[Tokenized]:
        """Yield the result for each input, read whole; `kept` None: of any length.

        `room`: tokens that truncation leaves.
        """
        bare = not (prompt or with_info)  # without offsets, which are a quarter of the work
        read = [self._prompted(value, prompt) for value in values] if prompt else values
        for value, whole, encoding in zip(
            values, read, self._read(read, special_tokens, bare=bare, prompt=prompt), strict=True
        ):
            parts = {"": value} if isinstance(value, str) else dict(zip(PARTS, value, strict=True))
            for field, part in parts.items():
                if not part and empty_texts == "refuse":
                    raise InvalidInput(field, Reason.EMPTY_TEXT)
            special = self._spelled.marks(encoding, whole, special_tokens) if with_info else None
            before = "" if whole is value else prompt
            cut = None if kept is None else self._cut(value, kept)
            yield self._tokenized(encoding, before, cut, room, special, special_tokens)

    def _prompted(self, value: Value, prompt: str) -> Value:
        """Return an input with a prompt before it, unless a template places the prompt."""
        if not self._before(value, prompt):
            return value
        return prompt + value if isinstance(value, str) else (prompt + value[0], value[1])

    def _before(self, value: Value, prompt: str) -> int:
        """Return how many characters of a prompt go before an input, outside of a template."""
        return len(prompt) if isinstance(value, str) or self._prompts_pairs else 0

    def _around(self, value: Value, prompt: str) -> int:
        """Return how many characters are read beside an input."""
        return len(prompt) if isinstance(value, str) else self.around_pair(prompt)

    def _read(
        self,
        values: Sequence[Value],
        special_tokens: SpecialTokens,
        *,
        bare: bool,
        prompt: str = "",
    ) -> Iterable[Encoding]:
        """Tokenise inputs with their prompts; `prompt` is for a template."""
        reader = self._readers[special_tokens]
        if self._pairs is None:
            return self._encodings(reader, values, bare=bare)
        alike = itertools.groupby(values, key=lambda value: isinstance(value, str))
        return itertools.chain.from_iterable(
            self._encodings(reader, list(group), bare=bare)
            if single
            else self._templated(
                [each for each in group if isinstance(each, tuple)], reader, prompt
            )
            for single, group in alike
        )

    def _templated(
        self, pairs: Sequence[tuple[str, str]], reader: tokenizers.Tokenizer, prompt: str
    ) -> list[PairEncoding]:
        """Tokenise pairs by the template."""
        assert self._pairs is not None
        parse, plain = (
            functools.partial(self._encodings, each, bare=False, around=False)
            for each in (self._plain, reader)
        )
        return self._pairs.read(pairs, prompt, parse, None if reader is self._plain else plain)

    def _encodings(
        self,
        reader: tokenizers.Tokenizer,
        values: Sequence[Value],
        *,
        bare: bool,
        around: bool = True,
    ) -> Iterable[tokenizers.Encoding]:
        """Tokenise inputs; `around`: with special tokens around them."""
        try:
            if (
                len(values) == 1
                and isinstance(values[0], str)
                and len(values[0]) <= SHORT_CHARACTERS
            ):
                # The only call that keeps other threads waiting.
                return [reader.encode(values[0], add_special_tokens=around)]
            encode = reader.encode_batch_fast if bare else reader.encode_batch
            return encode(values, add_special_tokens=around)
        except BaseException as error:
            if not is_panic(error):
                raise
            if len(values) == 1:
                raise InvalidInput("", Reason.BEYOND_PATTERNS) from None
        # Each input alone, to find the one at fault.
        alone = (self._encodings(reader, [each], bare=bare, around=around) for each in values)
        return itertools.chain.from_iterable(alone)

    def _tokenized(
        self,
        encoding: Encoding,
        prompt: str,
        truncation: Cut | None,
        room: int,
        special: Sequence[bool] | None,
        special_tokens: SpecialTokens,
    ) -> Tokenized:
        """Return the result for one input.

        Args:
            encoding: encoding of the prompt and the input.
            prompt: the prompt; may be empty.
            truncation: as in `encode`; None: any length.
            room: tokens that it leaves.
            special: True for each special token; None: only ids are requested.
            special_tokens: see `encode`.
        """
        length, kept = len(encoding), None
        of_prompt = prompt_tokens(encoding, len(prompt)) if prompt else None
        if truncation is not None and length > room:
            stays = np.array(encoding.special_tokens_mask, dtype=np.bool_)
            if of_prompt is not None:
                stays |= of_prompt
            second = np.array([text == 1 for text in encoding.sequence_ids])
            kept = truncate(stays, second, room, truncation, prompt=bool(prompt))
        ids = np.array(encoding.ids, dtype=np.int64)
        segments = np.array(encoding.type_ids, dtype=np.int64) if self._segments else None
        if kept is not None:
            ids, segments = ids[kept], None if segments is None else segments[kept]
        if not len(ids):
            raise InvalidInput("", Reason.NO_KNOWN_TOKEN)
        info = words = None
        if special is not None:
            info = token_list(encoding, kept, special, of_prompt, len(prompt))
            words = word_numbers(encoding, kept)
        if of_prompt is None:
            return Tokenized(ids, length, info, segments, words)
        left_out = 0 if self._include_prompt else self._prompt_ids(prompt, special_tokens)
        return Tokenized(
            ids, length, info, segments, words, int(of_prompt.sum()), min(left_out, len(ids) - 1)
        )

    def _count_prompt(self, prompt: str, special_tokens: SpecialTokens) -> int:
        """Return the number of tokens that sentence-transformers counts as the prompt.

        It tokenises the prompt alone, and leaves out a special token at its end.
        """
        around = self._readers[special_tokens].encode(prompt).special_tokens_mask
        return len(around) - int(bool(around) and around[-1] == 1)

    def measure(self) -> TokenizerLimit:
        """Return the longest text that is read at a bounded cost."""
        return limit_of(self._plain, self.max_length)

    @property
    def ids(self) -> int:
        """The highest id that it can give, plus one."""
        return 1 + max(self._plain.get_vocab().values(), default=-1)

    def segments(self, *, pairs: bool) -> int:
        """Return the number of segments (token types) in its single texts, or also in its pairs."""
        return 1 + max(self._plain.encode("a", "b" if pairs else None).type_ids, default=0)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the vocabulary's spelling of each id; empty if the vocabulary has none."""
        return tuple(self._plain.id_to_token(i) or "" for i in ids)


def open_tokenizer(
    path: File | Path,
    max_length: int,
    *,
    vocabulary: int,
    segments: int,
    pairs: bool,
    include_prompt: bool = True,
    pair_template: PairTemplate | None = None,
    prompts_pairs: bool = False,
) -> Tokenizer:
    """Load a tokenizer.json for a model.

    Args:
        path, max_length, include_prompt, pair_template, prompts_pairs: see Tokenizer.
        vocabulary: number of ids that the model knows.
        segments: number of segments that the model knows; 0: none.
        pairs: True if the model takes pairs of texts.

    Raises:
        BundleError: the file is not a tokenizer. Or it has more ids or segments than the model, and
            would index beyond the model's tables. Or the model takes no more tokens than the
            tokenizer puts around a text.
    """
    tokenizer = Tokenizer(
        path,
        max_length,
        include_prompt=include_prompt,
        segments=bool(segments),
        pair_template=pair_template,
        prompts_pairs=prompts_pairs,
    )
    if tokenizer.ids > vocabulary:
        raise BundleError(
            f"has ids up to {tokenizer.ids - 1}; the model knows {vocabulary}", path.name
        )
    if segments and (marked := tokenizer.segments(pairs=pairs)) > segments:
        raise BundleError(f"uses {marked} segments; the model has {segments}", path.name)
    return tokenizer
