"""Accepted inputs: checks of ids, and truncation of inputs that are too long."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Literal, TypeGuard

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.results import TokenList
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.values import Ids, Marks
from headlight.spec import Truncate

# One input: a text, a pair of texts seen together, or token ids, special tokens included.
Input = str | tuple[str, str] | Sequence[int]
Truncation = Literal["refuse", "cut_end", "cut_start", "cut_second"]
# How tokens are cut: a template of pairs cuts the document alone, whatever is requested.
Cut = Truncation | Literal["cut_document", "cut_document_start"]
TRUNCATIONS: Mapping[Truncate, Truncation] = {
    "refuse": "refuse",
    "end": "cut_end",
    "start": "cut_start",
    "only_second": "cut_second",
}
SECOND_ALONE = ("cut_second", "cut_document", "cut_document_start")
FROM_START = ("cut_start", "cut_document_start")


def is_pair(value: Input) -> TypeGuard[tuple[str, str]]:
    """Return whether an input is a pair of texts."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(part, str) for part in value)
    )


def too_many_tokens(most: int) -> InvalidInput:
    """Return the error of a request whose inputs have more than so many tokens."""
    return InvalidInput("inputs", Reason.TOO_MANY_TOKENS, most=most)


def not_taken(field: str, accepts: Sequence[str]) -> InvalidInput:
    """Return the error of an input of a kind that a model does not take."""
    if list(accepts) == ["ids"]:
        return InvalidInput(field, Reason.TAKES_IDS)
    return InvalidInput(field, Reason.NOT_TAKEN, names=" or ".join(accepts))


def checked_ids(
    manifest: Manifest, ids: Sequence[int], segments: Sequence[int]
) -> tuple[Ids, Ids | None]:
    """Check ids and segments; return both as int64 [n]. Segments are None, for zeros, if not given.

    Raises:
        InvalidInput: see `Runtime.check_ids`.
    """
    if not 1 <= len(ids) <= manifest.max_length:
        raise InvalidInput("", Reason.IDS, count=len(ids), most=manifest.max_length)
    numbers = _checked("", Reason.ID_RANGE, ids, manifest.architecture.vocab_size)
    types = None
    if len(segments):
        if not manifest.architecture.segments:
            raise InvalidInput("segments", Reason.NO_SEGMENTS)
        if len(segments) != len(ids):
            raise InvalidInput("segments", Reason.SEGMENTS, segments=len(segments), ids=len(ids))
        types = _checked("segments", Reason.SEGMENT_RANGE, segments, manifest.architecture.segments)
    return numbers, types


def list_of_ids(ids: Ids, segments: Ids | None, pieces: tuple[str, ...]) -> TokenList:
    """Return the tokens of an input of ids.

    They have no text, and it is unknown which are special.
    """
    zeros = (0,) * len(ids)
    types = zeros if segments is None else tuple(segments.tolist())
    return TokenList(tuple(ids.tolist()), pieces, zeros, zeros, (False,) * len(ids), types)


def _checked(field: str, reason: Reason, values: Sequence[int], count: int) -> Ids:
    """Return the values as int64 [n].

    Raises:
        InvalidInput: for `field`, unless each is in 0 .. count-1.
    """
    if isinstance(values, array) and values.typecode == "q":
        # The same memory, as NumPy's int64: OpenVINO refuses `longlong`.
        numbers = np.asarray(values).view(np.int64)
    else:
        try:
            numbers = np.fromiter(values, dtype=np.int64, count=len(values))
        except (OverflowError, TypeError, ValueError):
            raise InvalidInput(field, Reason.NOT_AN_INTEGER) from None
    # As unsigned numbers, negative ones are the largest.
    if len(numbers) and numbers.view(np.uint64).max() >= count:
        wrong = np.flatnonzero((numbers < 0) | (numbers >= count))[0]
        # The index, not the value: messages are logged, and logs hold nothing of a text.
        raise InvalidInput(field, reason, place=int(wrong), last=count - 1)
    return numbers


def truncate(
    stays: Marks, second: Marks, most: int, truncation: Cut, *, prompt: bool = False
) -> Ids:
    """Return the tokens that are left: int64 [most], ascending.

    The longer text of a pair is cut until both are equally long, as in the tokenizers library
    (`longest_first`); or the second alone (`only_second`), which the document of a template is.
    The library would tokenise the input again.

    Args:
        stays: bool [n], the tokens that are not cut.
        second: bool [n], the tokens of a pair's second text.
        most: number of tokens that may be left, less than n.
        truncation: the end to cut, or "refuse".
        prompt: True if there is a prompt, for the error.

    Raises:
        InvalidInput: truncation is "refuse", or the uncut tokens leave no room. `field` is "first"
            if it is the first text that leaves none.
    """
    if truncation == "refuse":
        reason = Reason.TOO_LONG_WITH_PROMPT if prompt else Reason.TOO_LONG
        raise InvalidInput("", reason, tokens=len(stays), most=most)
    room = most - int(stays.sum())
    if room < 1:
        reason = Reason.NO_ROOM_BESIDE_PROMPT if prompt else Reason.NO_ROOM_BESIDE_SPECIAL
        raise InvalidInput("", reason, tokens=most - room, most=most)
    texts = [np.flatnonzero(~stays & ~second), np.flatnonzero(~stays & second)]
    if truncation in SECOND_ALONE and (len(texts[1]) or truncation != "cut_second"):
        if len(texts[0]) >= room:
            tokens = most - room + len(texts[0])
            raise InvalidInput("first", Reason.NO_ROOM_BESIDE_FIRST, tokens=tokens, most=most)
        shorter, other = 0, len(texts[0])
    else:
        shorter = int(len(texts[0]) > len(texts[1]))  # its index; the first if they are as long
        other = min(len(texts[shorter]), room // 2)
    rooms = {shorter: other, 1 - shorter: room - other}
    left = [
        ids[len(ids) - rooms[at] :] if truncation in FROM_START else ids[: rooms[at]]
        for at, ids in enumerate(texts)
    ]
    return np.sort(np.concatenate([np.flatnonzero(stays), *left]))
