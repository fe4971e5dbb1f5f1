"""The few messages of the Open Inference Protocol on the wire, by their public field numbers.

Generated stubs would need protobuf's pool, in which other packages register the same names.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

Message = dict[str, Any]


class Field(NamedTuple):
    """`kind`: string, bytes, bool, integer, float, double, or the name of a message."""

    name: str
    kind: str
    repeated: bool = False


NAMES = {1: Field("name", "string"), 2: Field("version", "string")}
TENSOR = {
    1: Field("name", "string"),
    2: Field("datatype", "string"),
    3: Field("shape", "integer", True),
    4: Field("parameters", "Parameter", True),
    5: Field("contents", "Contents"),
}
MODEL = {
    1: Field("model_name", "string"),
    2: Field("model_version", "string"),
    3: Field("id", "string"),
    4: Field("parameters", "Parameter", True),
}
SCHEMAS: dict[str, dict[int, Field]] = {
    "Empty": {},
    "ServerLiveResponse": {1: Field("live", "bool")},
    "ServerReadyResponse": {1: Field("ready", "bool")},
    "ModelReadyRequest": NAMES,
    "ModelReadyResponse": {1: Field("ready", "bool")},
    "ServerMetadataResponse": NAMES | {3: Field("extensions", "string", True)},
    "ModelMetadataRequest": NAMES,
    "ModelMetadataResponse": {
        1: Field("name", "string"),
        2: Field("versions", "string", True),
        3: Field("platform", "string"),
        4: Field("inputs", "Tensor", True),
        5: Field("outputs", "Tensor", True),
    },
    "ModelInferRequest": MODEL
    | {
        5: Field("inputs", "Tensor", True),
        6: Field("outputs", "Tensor", True),
        7: Field("raw_input_contents", "bytes", True),
    },
    "ModelInferResponse": MODEL
    | {5: Field("outputs", "Tensor", True), 6: Field("raw_output_contents", "bytes", True)},
    "ModelStreamInferResponse": {
        1: Field("error_message", "string"),
        2: Field("infer_response", "ModelInferResponse"),
    },
    "Tensor": TENSOR,
    "Parameter": {1: Field("key", "string"), 2: Field("value", "Choice")},
    "Choice": {
        1: Field("bool_param", "bool"),
        2: Field("int64_param", "integer"),
        3: Field("string_param", "string"),
        4: Field("double_param", "double"),
    },
    "Contents": {
        1: Field("bool_contents", "bool", True),
        2: Field("int_contents", "integer", True),
        3: Field("int64_contents", "integer", True),
        4: Field("uint_contents", "integer", True),
        5: Field("uint64_contents", "integer", True),
        6: Field("fp32_contents", "float", True),
        7: Field("fp64_contents", "double", True),
        8: Field("bytes_contents", "bytes", True),
    },
}
FIXED = {"float": ("<f", 5), "double": ("<d", 1)}  # format, and type on the wire
WIDTHS = {1: 8, 5: 4}


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _delimited(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _scalar(kind: str, value: Any) -> bytes:
    return struct.pack(FIXED[kind][0], value) if kind in FIXED else _varint(int(value))


def encode(schema: str, message: Message) -> bytes:
    """Return the bytes of a message; fields that are absent or empty are left out."""
    out = bytearray()
    for number, (name, kind, repeated) in SCHEMAS[schema].items():
        values = message.get(name) or []
        values = values if repeated else [message[name]] if message.get(name) else []
        if kind == "string":
            values = [each.encode() for each in values]
        elif kind in SCHEMAS:
            values = [encode(kind, each) for each in values]
        elif kind != "bytes":
            if values and repeated:
                out += _delimited(number, b"".join(_scalar(kind, each) for each in values))
            elif values:
                out += _varint(number << 3 | FIXED.get(kind, ("", 0))[1]) + _scalar(kind, values[0])
            continue
        for each in values:
            out += _delimited(number, each)
    return bytes(out)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
    raise ValueError("a varint is too long")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _packed(kind: str, data: bytes) -> list[Any]:
    if kind in FIXED:
        return [value for (value,) in struct.iter_unpack(FIXED[kind][0], data)]
    values, place = [], 0
    while place < len(data):
        number, place = _read_varint(data, place)
        values.append(bool(number) if kind == "bool" else _signed(number))
    return values


def _read(kind: str, wire: int, data: bytes, number: int) -> list[Any]:
    """Return the values of one field on the wire: several if they are packed."""
    if kind == "string":
        return [data.decode()]
    if kind == "bytes":
        return [data]
    if kind in SCHEMAS:
        return [decode(kind, data)]
    return _packed(kind, _varint(number) if wire == 0 else data)


def decode(schema: str, data: bytes) -> Message:
    """Return a message; unknown fields are ignored, absent ones have their defaults."""
    fields = SCHEMAS[schema]
    zero: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "integer": 0}
    message: Message = {
        field.name: [] if field.repeated else zero.get(field.kind) for field in fields.values()
    }
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        wire, number, piece = tag & 7, 0, b""
        if wire == 0:
            number, place = _read_varint(data, place)
        else:
            size, place = _read_varint(data, place) if wire == 2 else (WIDTHS[wire], place)
            piece, place = data[place : place + size], place + size
        field = fields.get(tag >> 3)
        if field is None:
            continue
        values = _read(field.kind, wire, piece, number)
        if field.repeated:
            message[field.name] += values
        else:
            message[field.name] = values[-1]
    return message
