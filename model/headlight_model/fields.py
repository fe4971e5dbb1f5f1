"""Conversion of parsed JSON to a frozen dataclass, with errors that name the key."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def build(kind: type[T], values: Any) -> T:
    """Return an instance of the dataclass `kind` from a JSON object.

    Nested objects become dataclasses, lists become tuples.

    Raises:
        ValueError: an unknown or missing key, or a value of the wrong type; the message names it.
    """
    if not isinstance(values, dict):
        raise ValueError("is not a JSON object")
    assert dataclasses.is_dataclass(kind)
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise ValueError(f"unknown keys {unknown}; known are {sorted(hints)}")
    required = {f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
    missing = sorted(required - set(values))
    if missing:
        raise ValueError(f"missing keys {missing}")
    return kind(**{name: _value(name, hints[name], value) for name, value in values.items()})


def _value(name: str, hint: Any, value: Any) -> Any:
    """Convert a value to its annotation: plain type, `X | None`, `tuple[X, ...]`, dataclass."""
    if get_origin(hint) is types.UnionType:
        [hint] = [part for part in get_args(hint) if part is not types.NoneType]
        return None if value is None else _value(name, hint, value)
    if get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} is {value!r}; expected a list")
        return tuple(
            _value(f"{name}[{at}]", get_args(hint)[0], part) for at, part in enumerate(value)
        )
    if dataclasses.is_dataclass(hint):
        try:
            # `hint` is a class: annotations hold no instances.
            return build(hint, value)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    expected = (int, float) if hint is float else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{name} is {value!r}; expected {hint.__name__}")
    return value
