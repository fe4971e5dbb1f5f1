"""Pairs that a template makes one text: their tokens, as those of two texts.

The template's tokens count as special tokens around the texts: they have no characters, and are
never cut.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

import tokenizers

from headlight.runtime.bundle.pair_template import PairTemplate

Place = tuple[int, int]


class PairEncoding:
    """The encoding of one text, with the attributes that an encoding of a pair has."""

    def __init__(
        self, encodings: Sequence[tokenizers.Encoding], starts: Sequence[int], bounds: Sequence[int]
    ) -> None:
        """Join encodings.

        Args:
            encodings: of the text's parts, in their order.
            starts: the index of each part's first character.
            bounds: the first index and the end of the query, then of the document.
        """
        self.ids: list[int] = []
        self.tokens: list[str] = []
        self.word_ids: list[int | None] = []
        self._whole: list[Place] = []  # characters of the text
        self._bounds = bounds
        for encoding, start in zip(encodings, starts, strict=True):
            self.ids += encoding.ids
            self.tokens += encoding.tokens
            words = 1 + max((word for word in self.word_ids if word is not None), default=-1)
            self.word_ids += [None if word is None else words + word for word in encoding.word_ids]
            self._whole += [(start + begin, start + end) for begin, end in encoding.offsets]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def type_ids(self) -> list[int]:
        return [0] * len(self.ids)

    @functools.cached_property
    def sequence_ids(self) -> list[int | None]:
        """0 for the query, 1 for the document, None for the template.

        A token with characters of a text and of the template before it belongs to the text, as
        with prompts. One with the document's last and the template's belongs to the template, so
        that it stays if the document is cut.
        """
        begin, end, second, last = self._bounds
        return [
            0
            if start < end and stop > begin
            else 1
            if start < last and second < stop <= last
            else None
            for start, stop in self._whole
        ]

    @functools.cached_property
    def special_tokens_mask(self) -> list[int]:
        return [int(text is None) for text in self.sequence_ids]

    @functools.cached_property
    def offsets(self) -> list[Place]:
        """Characters of each token in its own text."""
        begin, end, second, last = self._bounds
        limits = {0: (begin, end), 1: (second, last)}
        places = list[Place]()
        for (start, stop), text in zip(self._whole, self.sequence_ids, strict=True):
            if text is None:
                places.append((0, 0))
            else:
                least, most = limits[text]
                places.append((max(start, least) - least, min(stop, most) - least))
        return places


Encoding = tokenizers.Encoding | PairEncoding
Encode = Callable[[list[str]], Iterable[tokenizers.Encoding]]


class PairReader:
    """Reads pairs by a template. Special tokens are those of the template, and if asked the texts'.

    Threads may share it.

    Attributes:
        takes_prompt: whether the template has a place for a prompt.
        size: characters of the template.
    """

    def __init__(self, template: PairTemplate, spellings: Iterable[str]) -> None:
        """Prepare; `spellings` are those of the tokenizer's special tokens."""
        self.takes_prompt = bool(template.prompted)
        self.size = max(sum(map(len, each)) for each in (template.plain, template.prompted))
        self._template = template
        known = sorted({each for each in spellings if each}, key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, known)) or "(?!)")

    def read(
        self, pairs: Sequence[tuple[str, str]], prompt: str, parse: Encode, plain: Encode | None
    ) -> list[PairEncoding]:
        """Tokenise pairs.

        Args:
            pairs: queries and documents.
            prompt: of the template; may be empty.
            parse: tokenises texts; special tokens that are spelled out are parsed.
            plain: the same, without parsing them, for queries, documents and prompts; None: they
                are parsed there, too.
        """
        pieces = [self._template.pieces(pair, prompt) for pair in pairs]
        texts = ["".join(text for _, text in each) for each in pieces]
        encodings = list[PairEncoding]()
        for encoding, each in zip(parse(texts), pieces, strict=True):
            ends = list[int]()
            for _, text in each:
                ends.append(len(text) + (ends[-1] if ends else 0))
            bounds = (ends[2], ends[3], ends[4], ends[5])
            if plain is None or not any(
                self._spelled.search(text) for is_ours, text in each if not is_ours
            ):
                encodings.append(PairEncoding([encoding], [0], bounds))
            else:
                encodings.append(self._apart(each, bounds, parse, plain))
        return encodings

    def _apart(
        self,
        pieces: Sequence[tuple[bool, str]],
        bounds: Sequence[int],
        parse: Encode,
        plain: Encode,
    ) -> PairEncoding:
        """Tokenise the special tokens of the template, and all between them, each by itself."""
        parts: list[tuple[bool, str]] = [(False, "")]
        for is_ours, text in pieces:
            place = 0
            for match in self._spelled.finditer(text) if is_ours else ():
                parts[-1] = (False, parts[-1][1] + text[place : match.start()])
                parts += [(True, match.group()), (False, "")]
                place = match.end()
            parts[-1] = (False, parts[-1][1] + text[place:])
        encodings, starts, start = list[tokenizers.Encoding](), list[int](), 0
        for is_special, text in parts:
            encodings += (parse if is_special else plain)([text])
            starts.append(start)
            start += len(text)
        return PairEncoding(encodings, starts, bounds)
