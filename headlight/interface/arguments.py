"""Arguments of an encoder's methods: inputs, how to read their texts, and head masks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.errors import InvalidInput
from headlight.spec import (
    EMPTY_TEXTS,
    PRIORITIES,
    SPECIAL_TOKENS,
    TRUNCATE,
    EmptyTexts,
    Priority,
    SpecialTokens,
    Truncate,
)

# One input: a text, a pair of texts seen together, or token ids, special tokens included.
Input = str | tuple[str, str] | Sequence[int] | NDArray[np.integer]
Vector = NDArray[np.float32]
LARGEST_ID = 2**63 - 1
# Fields of requests whose arguments have another name.
ARGUMENTS = {
    "matrix.max_bytes": "matrix_max_bytes",
    "matrix.dtype": "matrix",
    "target_text": "target",
    "target_vector": "target",
}
HEAD_MASK = re.compile(r"^inputs\[\d+\]\.(?=head_mask$)")  # each input has the caller's


class Prompting(TypedDict, total=False):
    """Prompt before each text, and reading of its special tokens; see `Encoder.encode`."""

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
    if problem := _no_list(texts):
        raise InvalidInput(name, problem)
    return list(texts)


def _no_list(texts: object) -> str:
    """Return why an object is no list of inputs; "" if it may be one."""
    kind = type(texts).__name__
    if not isinstance(texts, Iterable):
        return f"is {kind}; must be a text, or a list of texts, pairs or ids"
    if isinstance(texts, Mapping):
        return f"is a {kind}, of which only the keys would be read; give list(texts.values())"
    if isinstance(texts, set | frozenset):
        return f"is a {kind}, which has no order; give a list"
    if hasattr(texts, "columns"):  # of pandas, Polars or pyarrow
        return f"is a {kind}, of which only the names of columns would be read; give one column"
    return ""


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
        raise InvalidInput(
            field, "holds a lone surrogate, which UTF-8 cannot express; decode the text properly"
        ) from None
    except (TypeError, ValueError):  # a ragged list
        pass
    raise InvalidInput(
        field,
        "must be a text, a pair of texts (a tuple), or a sequence of integer ids (at least one)",
    )


def check_choice(field: str, value: object, names: Iterable[str]) -> None:
    """Raise InvalidInput unless a value is None or one of some names."""
    names = list(names)
    if value is not None and not (isinstance(value, str) and value in names):
        wrong = "" if isinstance(value, str) else f", not {value!r}"
        raise InvalidInput(field, f"must be None, {' or '.join(map(json.dumps, names))}{wrong}")


def check_prompt(name: object, text: object) -> None:
    """Raise InvalidInput unless at most one of both is given, as a text."""
    if name is not None and text is not None:
        raise InvalidInput("prompt", "and prompt_name are both given; give one of them")
    try:
        for given in (name, text):
            str.encode("" if given is None else given)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # among others, a lone surrogate
        raise InvalidInput(
            "prompt", "and prompt_name must be texts that UTF-8 can express"
        ) from None


def check_reading(reading: Prompting) -> None:
    """Raise InvalidInput for a reading or a priority that there is not."""
    asked = cast("Reading", reading)
    check_choice("truncate", asked.get("truncate"), TRUNCATE)
    check_choice("priority", asked.get("priority"), PRIORITIES)
    check_prompt(asked.get("prompt_name"), asked.get("prompt"))
    check_choice("empty_texts", asked.get("empty_texts"), EMPTY_TEXTS)
    check_choice("special_tokens", asked.get("special_tokens"), SPECIAL_TOKENS)


def checked_target(target: str | ArrayLike, width: int | None = None) -> str | Vector:
    """Return the target of an occlusion: a text, or a vector float32 [width]; None: of any width.

    Raises:
        InvalidInput: it is neither, or the vector has another width or is not finite.
    """
    if isinstance(target, str):
        return cast("str", checked_input(target, "target"))
    try:
        found = np.asarray(target, dtype=np.float32)
    except (TypeError, ValueError):
        found = np.zeros((0, 0), np.float32)
    if found.ndim != 1 or width not in (None, len(found)) or not np.isfinite(found).all():
        numbers = "finite numbers" if width is None else f"{width} finite numbers"
        raise InvalidInput(
            "target", f"must be a text, or a vector of {numbers}, as encode returns it"
        )
    return found


def checked_head_mask(mask: ArrayLike, layers: int, heads: int) -> NDArray[np.float32]:
    """Return factors of the heads as float32 [layers, heads].

    Raises:
        InvalidInput: they are no numbers, have another shape, or one is outside 0 to 1.
    """
    try:
        given, found = np.asarray(mask), np.asarray(mask, dtype=np.float32)
        # NumPy reads texts, and makes NaN of None
        if given.dtype.kind in "US" or None in given.ravel().tolist():
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidInput("head_mask", "must hold numbers alone") from None
    if found.shape != (layers, heads):
        raise InvalidInput(
            "head_mask",
            f"has the shape {found.shape}; this model has {layers} layers of {heads} heads",
        )
    # Larger ones could overflow, and affect other batch members.
    if not ((found >= 0) & (found <= 1)).all():
        raise InvalidInput("head_mask", "has a value outside 0 to 1; 1 keeps a head, 0 removes it")
    return found


def in_arguments(field: str, problem: str) -> InvalidInput:
    """Return the error of a field of a request; callers have one `prompt` and one `head_mask`."""
    if field.endswith(("prompt_text", "prompt_name")):
        problem = problem.replace("use prompt_text", "use prompt")
    field = ARGUMENTS.get(field, field)
    return InvalidInput(HEAD_MASK.sub("", field.replace("prompt_text", "prompt")), problem)
