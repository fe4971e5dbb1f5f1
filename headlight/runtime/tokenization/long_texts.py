"""Texts far longer than the model takes: truncation reads only a part of their characters.

A part is enough if the characters beyond it cannot change the tokens that truncation keeps. They
can change the pre-token at the cut, a special token that the cut splits, and the pre-tokens of one
number, which some patterns group from its end. So the kept tokens must end before the pre-token of
the last character that lies before all of these.
"""

from __future__ import annotations

import dataclasses
import operator
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.runtime.tokenization.input_checks import (
    FROM_START,
    SECOND_ALONE,
    Cut,
    truncate,
)
from headlight.runtime.tokenization.pair_encoding import Encoding
from headlight.runtime.tokenization.token_kinds import prompt_tokens
from headlight.runtime.values import Ids, Tokenized

Value = str | tuple[str, str]
# Some 4 are usual. An input of more characters for each token of the model is not read whole.
CHARACTERS_PER_TOKEN = 64
FIRST_PER_TOKEN = 8  # characters read first for each token of the model; doubled until they decide


class Part(NamedTuple):
    """A part of an input that truncates to the same tokens, and the characters left out before it.

    Attributes:
        value: the text or pair of texts.
        before: characters left out before the first, or only, and before the second text.
    """

    value: Value
    before: tuple[int, int] = (0, 0)

    def placed(self, tokenized: Tokenized, whole: Value) -> Tokenized:
        """Return its tokens as those of the whole input, whose number of tokens is estimated."""
        if self.value is whole:
            return tokenized
        share = _size(whole) / _size(self.value)
        info = tokenized.info
        if info is not None and any(self.before):
            # Only tokens without characters of the text end at 0.
            moved = [
                self.before[text] if end else 0
                for text, end in zip(info.segments, info.ends, strict=True)
            ]
            info = dataclasses.replace(
                info,
                starts=tuple(map(operator.add, info.starts, moved)),
                ends=tuple(map(operator.add, info.ends, moved)),
            )
        return tokenized._replace(
            original_length=round(share * tokenized.original_length), info=info
        )


class LongTexts(NamedTuple):
    """How long texts are cut.

    Attributes:
        read: tokenises a text or a pair, with its prompt; the tokens have offsets.
        max_length: tokens that truncation leaves.
        truncation: the end to cut.
        before: characters of the prompt before the single or first text; a template's has none.
        around: characters that are read beside the texts: those, or a template's.
        most: characters of one input that may be read, these included; None: all.
        reach: characters before a cut that may belong to a special token which it splits.
    """

    read: Callable[[Value], Encoding]
    max_length: int
    truncation: Cut
    before: int
    around: int
    most: int | None
    reach: int

    def part(self, value: Value) -> Part:
        """Return the part of an input that is enough.

        Of a pair, the longer text is cut; the second one, if truncation cuts that alone.

        Raises:
            InvalidInput: `most` characters are not enough.
        """
        texts = (value,) if isinstance(value, str) else value
        longer = max(range(len(texts)), key=lambda at: len(texts[at]))
        if self.truncation in SECOND_ALONE:
            longer = len(texts) - 1
        whole = len(texts[longer])
        others = self.around + sum(map(len, texts)) - whole
        room = whole if self.most is None else self.most - others
        size = min(FIRST_PER_TOKEN * self.max_length, room)
        while 0 < size < whole:
            part = self._cut(value, longer, size)
            if self._decides(part.value, longer) and self._same_prompt(value, part.value, longer):
                return part
            if size == room:
                break
            size = min(2 * size, room)
        if room < whole:
            at_start = self.truncation in FROM_START
            reason = Reason.CUT_AT_START_UNKNOWN if at_start else Reason.CUT_AT_END_UNKNOWN
            raise InvalidInput("", reason, characters=others + whole, most=self.most or 0)
        return Part(value)

    def _cut(self, value: Value, at: int, size: int) -> Part:
        text = value if isinstance(value, str) else value[at]
        from_end = self.truncation in FROM_START
        kept = text[-size:] if from_end else text[:size]
        before = len(text) - size if from_end else 0
        if isinstance(value, str):
            return Part(kept, (before, 0))
        return (
            Part((kept, value[1]), (before, 0)) if at == 0 else Part((value[0], kept), (0, before))
        )

    def _decides(self, value: Value, at: int) -> bool:
        """Return whether a cut input has the kept tokens of any longer one.

        Args:
            value: the input, one text of which is cut.
            at: which text of a pair is cut; 0 for a single text.
        """
        encoding = self.read(value)
        if len(encoding) <= self.max_length:
            return False
        around = np.array(encoding.special_tokens_mask, dtype=np.bool_)
        stays = around | prompt_tokens(encoding, self.before) if self.before else around
        second = np.array([text == 1 for text in encoding.sequence_ids])
        of_text = ~stays & (second == bool(at))
        longer = 2 * int(of_text.sum()) > int((~stays).sum())
        if not longer and self.truncation not in SECOND_ALONE:
            return False  # the other text of the pair may be the longer one
        kept = truncate(stays, second, self.max_length, self.truncation, prompt=bool(self.before))
        kept = kept[of_text[kept]]
        before = self.before if at == 0 else 0
        text = value if isinstance(value, str) else value[at]
        if self.truncation not in FROM_START:
            return _ends_before(encoding, of_text, kept, before + _end_unchanged(text, self.reach))
        return _begins_behind(encoding, of_text, kept, before + _start_unchanged(text, self.reach))

    def _same_prompt(self, value: Value, part: Value, at: int) -> bool:
        """Return whether a prompt has the same tokens before a part as before the whole text.

        `at`: which text of a pair is cut; 0 for a single text.
        """
        if not self.before or at or self.truncation not in FROM_START:
            return True
        if isinstance(value, str):
            begin: Value = value[: len(part)]
        else:
            begin = value[0][: len(part[0])], value[1]
        first, second = (
            np.array(encoding.ids)[prompt_tokens(encoding, self.before)].tolist()
            for encoding in map(self.read, (begin, part))
        )
        return bool(first == second)


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _is_grouped(char: str) -> bool:
    r"""Return whether patterns may group a run of such characters from its end: \p{N}, spaces."""
    return unicodedata.category(char).startswith("N") or char.isspace()


def _end_unchanged(text: str, reach: int) -> int:
    """Return an index before which characters beyond the text's end change no pre-token's begin."""
    end = len(text) - reach
    while end > 0 and _is_grouped(text[end - 1]):
        end -= 1
    return end


def _start_unchanged(text: str, reach: int) -> int:
    """Return an index behind which characters before the text change no pre-token's end."""
    start = reach
    while start < len(text) and _is_grouped(text[start]):
        start += 1
    return start


def _ends_before(encoding: Encoding, of_text: Ids, kept: Ids, place: int) -> bool:
    """Return whether the kept tokens end before the pre-token of the character at a place."""
    words, offsets, tokens = encoding.word_ids, encoding.offsets, np.flatnonzero(of_text)
    beyond = next((at for at in tokens if offsets[at][1] > place), tokens[-1])
    return len(kept) > 0 and words[kept[-1]] < words[beyond]


def _begins_behind(encoding: Encoding, of_text: Ids, kept: Ids, place: int) -> bool:
    """Return whether the kept tokens begin behind the pre-token of the character at a place."""
    words, offsets, tokens = encoding.word_ids, encoding.offsets, np.flatnonzero(of_text)
    before = next((at for at in tokens[::-1] if offsets[at][0] <= place), tokens[0])
    return len(kept) > 0 and words[kept[0]] > words[before]
