"""OpenAPI document of the HTTP frontend, from the contract's descriptors and comments.

`make proto` runs it: python -m docs.site.openapi CONTRACT. The service sends the committed result
at /openapi.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from docs.site.openapi_routes import (
    ENCODING,
    NUMBERS,
    REQUESTS,
    RESPONSES,
    WITH_NUMBERS,
    document,
)

# Numbers of fields of descriptor.proto, which make the path of a comment.
Place = tuple[int, ...]
MESSAGES, ENUMS = 4, 5  # of a file
FIELDS, ONEOFS = 2, 8  # of a message
VALUES = 2  # of an enum
NUMBER_TYPES: dict[int, dict[str, Any]] = {
    Field.TYPE_STRING: {"type": "string"},
    Field.TYPE_BOOL: {"type": "boolean"},
    Field.TYPE_FLOAT: {"type": "number"},
    Field.TYPE_DOUBLE: {"type": "number"},
    Field.TYPE_INT32: {"type": "integer", "format": "int32"},
    Field.TYPE_INT64: {"type": "integer", "format": "int64"},
    Field.TYPE_UINT32: {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1},
    Field.TYPE_UINT64: {"type": "integer", "minimum": 0},
    Field.TYPE_BYTES: {"$ref": "#/components/schemas/Numbers"},
}


class Schemas:
    """JSON schemas of messages and enums of a file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._messages = {each.name: each for each in file.message_type}
        self._places = {each.name: (MESSAGES, at) for at, each in enumerate(file.message_type)}
        self._enums = {each.name: (at, each) for at, each in enumerate(file.enum_type)}
        self._comments = {
            tuple(place.path): " ".join(place.leading_comments.split())
            for place in file.source_code_info.location
        }
        self._asked = self._reached(REQUESTS)

    def all(self) -> dict[str, Any]:
        """Return the schemas that requests and responses use, by name."""
        answered = self._reached(RESPONSES)
        schemas = {name: self._message(name) for name in sorted(self._asked | answered)}
        used = {
            _name(field)
            for name in schemas
            for field in self._messages[name].field
            if field.type == Field.TYPE_ENUM
        }
        for name in sorted(used):
            schemas[name] = self._enum(*self._enums[name])
        for name in WITH_NUMBERS:
            schemas[name]["properties"]["encoding"] = ENCODING
        return schemas | {"Numbers": NUMBERS}

    def _reached(self, names: Iterable[str]) -> set[str]:
        """Return the messages that these hold, themselves included."""
        reached, left = set[str](), list(names)
        while left:
            if (name := left.pop()) not in reached:
                reached.add(name)
                left += [
                    _name(each)
                    for each in self._messages[name].field
                    if each.type == Field.TYPE_MESSAGE
                ]
        return reached

    def _message(self, name: str) -> dict[str, Any]:
        message, place = self._messages[name], self._places[name]
        schema: dict[str, Any] = {
            "type": "object",
            "description": self._about(place, self._oneofs(message, place)),
            "properties": {
                field.name: self._field(field, (*place, FIELDS, at))
                for at, field in enumerate(message.field)
            },
        }
        if name in self._asked:
            return schema | {"additionalProperties": False}
        always = [field.name for field in message.field if _always_sent(field)]
        return schema | ({"required": always} if always else {})

    def _field(self, field: Field, place: Place) -> dict[str, Any]:
        if field.type in (Field.TYPE_MESSAGE, Field.TYPE_ENUM):
            schema: dict[str, Any] = {"$ref": f"#/components/schemas/{_name(field)}"}
        else:
            schema = NUMBER_TYPES[field.type]
        if field.label == Field.LABEL_REPEATED:
            schema = {"type": "array", "items": schema}
        return schema | {"description": self._comments[place]}

    def _oneofs(self, message: DescriptorProto, place: Place) -> Iterable[str]:
        """Yield a sentence for each oneof that is no optional field."""
        for at, oneof in enumerate(message.oneof_decl):
            names = [
                each.name
                for each in message.field
                if each.HasField("oneof_index")
                and each.oneof_index == at
                and not each.proto3_optional
            ]
            if names:
                rule = self._comments.get((*place, ONEOFS, at), "")
                yield f"One of {', '.join(names)} ({oneof.name}): {rule}"

    def _enum(self, at: int, enum: EnumDescriptorProto) -> dict[str, Any]:
        values = [
            (value.name, self._comments[ENUMS, at, VALUES, number])
            for number, value in enumerate(enum.value)
            if value.number  # 0 is absence
        ]
        meanings = [f"- `{name}`: {comment}" for name, comment in values]
        return {
            "type": "string",
            "enum": [name for name, _ in values],
            "description": "\n".join([self._about((ENUMS, at), ()), "", *meanings]),
        }

    def _about(self, place: Place, more: Iterable[str]) -> str:
        return " ".join([self._comments[place], *more]).strip()


def _always_sent(field: Field) -> bool:
    """Return whether an answer has the field even if it is empty."""
    if field.label == Field.LABEL_REPEATED:
        return True
    # A dry run has no data.
    return not (field.proto3_optional or field.type in (Field.TYPE_MESSAGE, Field.TYPE_BYTES))


def _name(field: Field) -> str:
    return field.type_name.rpartition(".")[2]


def main(arguments: Sequence[str]) -> str:
    """Return the document of the descriptors in a file."""
    [descriptors] = arguments
    [file] = FileDescriptorSet.FromString(Path(descriptors).read_bytes()).file
    return json.dumps(document(Schemas(file).all()), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
