"""Decoding of JSON values to messages of the contract, by their descriptors.

Names are those of the contract, enums are strings, null is absence. `json_format.ParseDict` would
accept more spellings. Its errors repeat the caller's text, and seldom name the field at fault.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.refusals import Argument

M = TypeVar("M", bound=Message)
LONGEST_LIST = 10_000  # objects or names; each takes microseconds
LONGEST_NAME = 64  # characters of an unknown name that a message repeats
KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}
INTEGERS: Mapping[int, tuple[int, int]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


def message_of(kind: type[M], value: object, longest_list: int = LONGEST_LIST) -> M:
    """Return the message of a JSON value, as `orjson.loads` returns it.

    Args:
        kind: class of the message. It has no bytes, no maps and no recursion.
        value: the JSON value.
        longest_list: most entries of a list of objects or names.

    Raises:
        InvalidInput: an unknown field, a wrong type, a number out of range, two members of a oneof.
            Names the field.
    """
    message = kind()
    _Reader(longest_list).read(message, value, "")
    return message


class _Reader:
    def __init__(self, longest_list: int) -> None:
        self._longest_list = longest_list

    def read(self, message: Message, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(path, value, Phrase.OBJECT)
        kind, inside = message.DESCRIPTOR, f"{path}." if path else ""
        chosen = dict[str, str]()
        for name, each in value.items():
            field: Any = kind.fields_by_name.get(name)
            if field is None:
                raise _unknown(inside, name, list(kind.fields_by_name), kind.name)
            if each is None:
                continue
            if (oneof := field.containing_oneof) is not None:
                other = chosen.setdefault(oneof.name, name)
                if other != name:
                    raise InvalidInput(inside + name, Reason.SET_TWICE, other=other)
            self._set(message, field, each, inside + name)

    def _set(self, message: Message, field: FieldDescriptor, value: object, path: str) -> None:
        if field.is_repeated:
            self._extend(getattr(message, field.name), field, value, path)
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()  # its presence alone requests an output
            self.read(inner, value, path)
        else:
            setattr(message, field.name, _scalar(field)(value, path))

    def _extend(self, target: Any, field: FieldDescriptor, value: object, path: str) -> None:
        if not isinstance(value, list):
            raise _wrong(path, value, Phrase.A_LIST)
        if field.cpp_type in (*INTEGERS, FieldDescriptor.CPPTYPE_FLOAT):
            _extend_numbers(target, field, value, path)
            return
        if len(value) > self._longest_list:
            raise InvalidInput(
                path, Reason.TOO_MANY_ENTRIES, count=len(value), most=self._longest_list
            )
        for at, each in enumerate(value):
            if field.message_type is not None:
                self.read(target.add(), each, f"{path}[{at}]")
            else:
                target.append(_scalar(field)(each, f"{path}[{at}]"))


def _scalar(field: FieldDescriptor) -> Callable[[object, str], Any]:
    """Return the function that checks one value of a field."""
    if (bounds := INTEGERS.get(field.cpp_type)) is not None:
        return lambda value, path: _integer(value, path, *bounds)
    if (enum := field.enum_type) is not None:
        return lambda value, path: _enum_number(value, path, enum)
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return _number
    text = field.cpp_type == field.CPPTYPE_STRING
    expected = (str, Phrase.A_STRING) if text else (bool, Phrase.A_BOOLEAN)
    return lambda value, path: _typed(value, path, *expected)


def _extend_numbers(target: Any, field: FieldDescriptor, values: list[Any], path: str) -> None:
    """Check and take a list of numbers. It may have millions, and this is an event loop."""
    bounds = INTEGERS.get(field.cpp_type)
    usual = {int} if bounds is not None else {int, float}
    if not set(map(type, values)) <= usual:
        check = _scalar(field)
        values = [
            each if type(each) in usual else check(each, f"{path}[{at}]")
            for at, each in enumerate(values)
        ]
    try:
        # Of integers, protobuf takes 0.4 µs each for a list of floats: ten times as long.
        target.extend(values if bounds is not None else map(float, values))
    except ValueError:
        assert bounds is not None
        least, most = bounds
        at = next(at for at, each in enumerate(values) if not least <= each <= most)
        raise _out_of_range(f"{path}[{at}]", least, most) from None


def _integer(value: object, path: str, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(path, value, Phrase.AN_INTEGER, least=least, most=most)
    if not least <= value <= most:
        raise _out_of_range(path, least, most)
    return value


def _out_of_range(path: str, least: int, most: int) -> InvalidInput:
    return InvalidInput(path, Reason.NOT_IN_RANGE, least=least, most=most)


def _number(value: object, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(path, value, Phrase.A_NUMBER)
    return value


def _typed(value: object, path: str, kind: type, expected: Phrase) -> object:
    if type(value) is not kind:
        raise _wrong(path, value, expected)
    return value


def _enum_number(value: object, path: str, enum: Any) -> int:
    names = [each.name for each in enum.values if each.number]
    if not isinstance(value, str):
        raise _wrong(path, value, Phrase.STRING_OF, names=", ".join(names))
    member = enum.values_by_name.get(value)
    if member is None:
        near = difflib.get_close_matches(value[:LONGEST_NAME].upper(), names, 1, 0.3)
        reason = Reason.NO_SUCH_VALUE_NEAR if near else Reason.NO_SUCH_VALUE
        raise InvalidInput(
            path, reason, name=enum.name, near=near[0] if near else "", names=", ".join(names)
        )
    return int(member.number)


def _wrong(path: str, value: object, kind: Phrase, **args: Argument) -> InvalidInput:
    type_ = KINDS[type(value)]
    if isinstance(value, float) and kind is not Phrase.A_NUMBER:
        type_ = "a fraction, or too large"
    reason = Reason.IS_OF_TYPE if path else Reason.BODY_OF_TYPE
    return InvalidInput(path, reason, type=type_, kind=kind, **args)


def _unknown(inside: str, name: str, names: Sequence[str], kind: str) -> InvalidInput:
    shown = ascii(name[:LONGEST_NAME])[1:-1]
    near = difflib.get_close_matches(shown, names, 1)
    return InvalidInput(
        inside + shown,
        Reason.NO_SUCH_FIELD_NEAR if near else Reason.NO_SUCH_FIELD,
        name=kind,
        near=near[0] if near else "",
        names=", ".join(names) or "none",
    )
