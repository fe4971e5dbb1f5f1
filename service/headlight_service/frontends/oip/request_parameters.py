"""Options of a request: its `parameters`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.runtime.tokenization.input_checks import TRUNCATIONS, Truncation
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
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import Kind

ENCODE = "headlight.v1.HeadlightService/Encode"
MOST_CHARACTERS = 1000  # of a parameter; a prompt may be longer
# Type of each option, by the models that have it.
EVERYWHERE: dict[str, type] = {
    "role": str,
    "prompt_name": str,
    "prompt": str,
    "truncate": str,
    "special_tokens": str,
    "empty_texts": str,
}
OPTIONS: dict[Kind, dict[str, type]] = {
    "scores": {},
    "sparse": {"top_k": int, "min_weight": float},
    "multi_vector": {"dtype": str},
    "embedding": {"normalize": bool, "dimensions": int, "dtype": str},
    "tokens": {"normalize": bool, "skip_special": bool, "skip_prompt": bool, "dtype": str},
    "attention": {
        "attention_layers": str,
        "attention_heads": str,
        "attention_reduce": str,
        "attention_scores": bool,
        "attention_max_bytes": int,
        "dtype": str,
    },
}
FORM = {name for options in OPTIONS.values() for name in options}
NAMES = {str: Phrase.A_STRING, int: Phrase.WHOLE, float: Phrase.A_NUMBER, bool: Phrase.A_BOOLEAN}
STATEFUL = ("sequence_id", "sequence_start", "sequence_end")


class Options(NamedTuple):
    """Options of a request, decoded.

    Attributes:
        form: those that choose the form of the outputs, sorted by name.
        deadline: on time.monotonic; infinity for none.
    """

    form: tuple[tuple[str, Any], ...]
    deadline: float
    priority: Priority
    prompt_name: str | None
    prompt_text: str | None
    truncation: Truncation | None
    special_tokens: SpecialTokens | None
    empty_texts: EmptyTexts | None
    role: InputRole | None


def decode_options(parameters: Mapping[str, oip.InferParameter], kind: Kind) -> Options:
    """Decode the parameters of a request.

    Raises:
        InvalidInput: one is unknown, or has a wrong type or value.
    """
    known, values = EVERYWHERE | OPTIONS[kind], dict[str, Any]()
    reserved = dict[str, Any]()
    for name, parameter in parameters.items():
        if name in ("timeout", "priority"):
            reserved[name] = _value(name, parameter, int)
        elif name in STATEFUL:
            _refuse_state(name, parameter)
        elif name in known:
            values[name] = _value(name, parameter, known[name])
        # Of clients: `content_type` says that BYTES are UTF-8.
        elif name != "content_type" and not name.startswith("triton_"):
            raise InvalidInput(
                f"parameters.{name:.64}", Reason.NO_OPTION, names=", ".join(known), method=ENCODE
            )
    if "prompt" in values and "prompt_name" in values:
        raise InvalidInput("parameters.prompt", Reason.TWO_OF_PROMPT)
    truncate = one_of("truncate", values.get("truncate"), TRUNCATE)
    special = one_of("special_tokens", values.get("special_tokens"), SPECIAL_TOKENS)
    role = one_of("role", values.get("role"), INPUT_ROLES)
    empty = one_of("empty_texts", values.get("empty_texts"), EMPTY_TEXTS)
    return Options(
        tuple(sorted((name, value) for name, value in values.items() if name in FORM)),
        _deadline(reserved.get("timeout", 0)),
        _priority(reserved.get("priority", 0)),
        values.get("prompt_name"),
        values.get("prompt"),
        None if truncate is None else TRUNCATIONS[cast(Truncate, truncate)],
        cast(SpecialTokens | None, special),
        cast(EmptyTexts | None, empty),
        cast(InputRole | None, role),
    )


def _value(name: str, parameter: oip.InferParameter, kind: type) -> Any:
    """Return a parameter's value. Raises InvalidInput: it is of another type."""
    choice = parameter.WhichOneof("parameter_choice")
    value: Any = None if choice is None else getattr(parameter, choice)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, float) and whole:  # "0,3" is a list, and 3 its shortest
        value = kind(value)
    if name == "truncate" and isinstance(value, bool):  # as text-embeddings-inference has it
        value = "end" if value else "refuse"
    if not isinstance(value, kind) or (kind is int and not whole):
        raise InvalidInput(f"parameters.{name}", Reason.MUST_BE, kind=NAMES[kind])
    if kind is str and name != "prompt" and len(str(value)) > MOST_CHARACTERS:
        raise InvalidInput(
            f"parameters.{name}", Reason.LONG_PARAMETER, count=len(str(value)), most=MOST_CHARACTERS
        )
    return value


def one_of(name: str, value: str | None, names: Sequence[str]) -> str | None:
    """Return a parameter's value. Raises InvalidInput: it is not one of some names."""
    if value is not None and value not in names:
        raise InvalidInput(
            f"parameters.{name}", Reason.NOT_ONE_OF, value=f"{value!r:.40}", names=", ".join(names)
        )
    return value


def _refuse_state(name: str, parameter: oip.InferParameter) -> None:
    choice = parameter.WhichOneof("parameter_choice")
    if choice is not None and getattr(parameter, choice):
        raise InvalidInput(f"parameters.{name}", Reason.NO_STATE)


def _deadline(microseconds: int) -> float:
    """Return the deadline of a `timeout` in microseconds; 0: none."""
    if microseconds < 0:
        raise InvalidInput("parameters.timeout", Reason.NEGATIVE_TIMEOUT)
    return time.monotonic() + microseconds * 1e-6 if microseconds else math.inf


def _priority(number: int) -> Priority:
    """Return the priority: 0, the default, and 1, the highest, are interactive; others are bulk."""
    if number < 0:
        raise InvalidInput("parameters.priority", Reason.NEGATIVE_PRIORITY)
    return PRIORITIES[number > 1]
