"""Arguments of an encoder's methods: inputs, how to read their texts, and head masks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.spec import (
    EMPTY_TEXTS,
    INPUT_ROLES,
    PRIORITIES,
    SPECIAL_TOKENS,
    TRUNCATE,
    EmptyTexts,
    InputRole,
    Priority,
    SpecialTokens,
    Truncate,
)

# One input: a text, a pair of texts seen together, or token ids, special tokens included.
Input = str | tuple[str, str] | Sequence[int] | NDArray[np.integer]
Vector = NDArray[np.float32]
LARGEST_ID = 2**63 - 1


class Prompting(TypedDict, total=False):
    """Role of each text, prompt before it, and its special tokens; see `Encoder.encode`."""

    role: InputRole | None
    prompt: str | None
    prompt_name: str | None
    special_tokens: SpecialTokens | None


class Reading(Prompting, total=False):
    """Reading of each text, and its priority: keywords of every method that runs the model."""

    truncate: Truncate | None
    empty_texts: EmptyTexts | None
    priority: Priority | None


def as_list(texts: Iterable[Input] | str, name: str = "texts") -> list[Input]:
    """Return the inputs of one call; a lone text counts as a list of one.

    Raises:
        InvalidInput: they are no list. `name` is that of the argument.
    """
    if isinstance(texts, str):
        return [texts]
    if (reason := _no_list(texts)) is not None:
        raise InvalidInput(name, reason, type=type(texts).__name__)
    return list(texts)


def _no_list(texts: object) -> Reason | None:
    """Return why an object is no list of inputs; None if it may be one."""
    if not isinstance(texts, Iterable):
        return Reason.NO_LIST
    if isinstance(texts, Mapping):
        return Reason.ONLY_KEYS
    if isinstance(texts, set | frozenset):
        return Reason.NO_ORDER
    # of pandas, Polars or pyarrow
    return Reason.ONLY_COLUMNS if hasattr(texts, "columns") else None


def text_of(given: Input) -> str | tuple[str, str] | None:
    """Return the text or the pair of an input; None for token ids."""
    if isinstance(given, str):
        return given
    return given if isinstance(given, tuple) and given and isinstance(given[0], str) else None


def checked_input(given: Input, field: str) -> str | tuple[str, str] | list[int]:
    """Return one input, ids as a list of Python's integers.

    Args:
        given: a text, a pair of texts, or a one-dimensional sequence of integers.
        field: its path in the request, for the error.

    Raises:
        InvalidInput: it is none of these, or UTF-8 or int64 cannot express it.
    """
    try:
        if isinstance(given, str):
            given.encode()
            return given
        if isinstance(given, tuple) and list(map(type, given)) == [str, str]:
            first, second = cast("tuple[str, str]", given)
            first.encode(), second.encode()
            return first, second
        ids = np.asarray(given)
        if ids.ndim == 1 and ids.dtype.kind in "iu" and ids.max(initial=0) <= LARGEST_ID:
            return cast("list[int]", ids.tolist())
    except UnicodeEncodeError:
        raise InvalidInput(field, Reason.LONE_SURROGATE) from None
    except (TypeError, ValueError):  # a ragged list
        pass
    raise InvalidInput(field, Reason.MUST_BE, kind=Phrase.INPUT)


def check_choice(field: str, value: object, names: Iterable[str]) -> None:
    """Raise InvalidInput unless a value is None or one of some names."""
    names = list(names)
    if value is not None and not (isinstance(value, str) and value in names):
        choices = " or ".join(map(json.dumps, names))
        if isinstance(value, str):
            raise InvalidInput(field, Reason.NONE_OF, names=choices)
        raise InvalidInput(field, Reason.NO_NAME, names=choices, value=repr(value))


def check_prompt(name: object, text: object) -> None:
    """Raise InvalidInput unless at most one of both is given, as a text."""
    if name is not None and text is not None:
        raise InvalidInput("prompt", Reason.TWO_PROMPTS)
    try:
        for given in (name, text):
            str.encode("" if given is None else given)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # among others, a lone surrogate
        raise InvalidInput("prompt", Reason.PROMPT_NOT_UTF8) from None


def check_reading(reading: Prompting) -> None:
    """Raise InvalidInput for a reading or a priority that there is not."""
    encoding = cast("Reading", reading)
    check_choice("role", encoding.get("role"), INPUT_ROLES)
    check_choice("truncate", encoding.get("truncate"), TRUNCATE)
    check_choice("priority", encoding.get("priority"), PRIORITIES)
    check_prompt(encoding.get("prompt_name"), encoding.get("prompt"))
    check_choice("empty_texts", encoding.get("empty_texts"), EMPTY_TEXTS)
    check_choice("special_tokens", encoding.get("special_tokens"), SPECIAL_TOKENS)


def checked_target(target: str | ArrayLike, width: int | None = None) -> str | Vector:
    """Return the target of an occlusion: a text, or a vector float32 [width]; None: of any width.

    Raises:
        InvalidInput: it is neither, or the vector has another width or is not finite.
    """
    if isinstance(target, str):
        return cast("str", checked_input(target, "target"))
    try:
        vector = np.asarray(target, dtype=np.float32)
    except (TypeError, ValueError):
        vector = np.zeros((0, 0), np.float32)
    if vector.ndim != 1 or width not in (None, len(vector)) or not np.isfinite(vector).all():
        kind = Phrase.VECTOR if width is None else Phrase.VECTOR_OF
        raise InvalidInput("target", Reason.MUST_BE, kind=kind, width=width or 0)
    return vector


def checked_head_mask(mask: ArrayLike, layers: int, heads: int) -> NDArray[np.float32]:
    """Return factors of the heads as float32 [layers, heads].

    Raises:
        InvalidInput: they are no numbers, have another shape, or one is outside 0 to 1.
    """
    try:
        given, factors = np.asarray(mask), np.asarray(mask, dtype=np.float32)
        # NumPy reads texts, and makes NaN of None
        if given.dtype.kind in "US" or None in given.ravel().tolist():
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidInput("head_mask", Reason.ONLY_NUMBERS) from None
    if factors.shape != (layers, heads):
        raise InvalidInput(
            "head_mask",
            Reason.HEAD_MASK_SHAPE,
            shape=str(factors.shape),
            layers=layers,
            heads=heads,
        )
    # Larger ones could overflow, and affect other batch members.
    if not ((factors >= 0) & (factors <= 1)).all():
        raise InvalidInput("head_mask", Reason.HEAD_MASK_RANGE)
    return factors
