"""Encoding of the contract's messages to JSON values, by their descriptors."""

from __future__ import annotations

import base64
import functools
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

Plan = tuple[tuple[str, bool, bool, bool, dict[int, str] | None], ...]


def json_value(message: Message) -> dict[str, Any]:
    """Return a message as an object of JSON.

    Names are those of the contract, enums are strings, bytes are base64, integers of 64 bits are
    numbers. Scalars and lists are always there; messages and optional scalars only if they are
    set. `json_format.MessageToDict` would write 64-bit integers as strings.
    """
    document = dict[str, Any]()
    for name, present, repeated, nested, enum in _plan(message.DESCRIPTOR):
        if present and not message.HasField(name):
            continue
        value = getattr(message, name)
        if nested:
            document[name] = list(map(json_value, value)) if repeated else json_value(value)
        elif enum is not None:
            document[name] = [enum[each] for each in value] if repeated else enum[value]
        elif repeated:
            document[name] = list(value)
        else:
            document[name] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return document


@functools.cache
def _plan(kind: Descriptor) -> Plan:
    """Return the fields of a message: name, has presence, repeated, message, names of its enum."""
    return tuple(
        (
            field.name,
            field.has_presence,
            field.is_repeated,
            field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE,
            None
            if field.enum_type is None
            else {each.number: each.name for each in field.enum_type.values},
        )
        for field in kind.fields
    )
