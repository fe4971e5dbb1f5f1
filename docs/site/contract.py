"""Page of the gRPC contract, from its descriptors with the comments of the proto file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

from docs.site.markdown import NOTE, cell, code, table

Place = tuple[int, ...]
# Numbers of fields of descriptor.proto, which make the path of a comment.
MESSAGES, ENUMS, SERVICES = 4, 5, 6  # of a file
FIELDS, NESTED, NESTED_ENUMS = 2, 3, 4  # of a message
METHODS, VALUES = 2, 2  # of a service, of an enum
SYNTAX = 12  # the comment before it describes the file


class MissingComment(ValueError):
    """An element of the contract without a comment."""


def read(path: Path) -> FileDescriptorProto:
    """Return the one file of a FileDescriptorSet."""
    [file] = FileDescriptorSet.FromString(path.read_bytes()).file
    return file


def page(file: FileDescriptorProto) -> str:
    """Return the page.

    Raises:
        MissingComment: naming the element.
    """
    comments = {tuple(place.path): place for place in file.source_code_info.location}
    about = comments.get((SYNTAX,))
    head = "".join([*about.leading_detached_comments, about.leading_comments]) if about else ""
    if not head.strip():
        raise MissingComment(f"{file.name} has no comment before `syntax`")
    shown = Contract(file, {path: place.leading_comments for path, place in comments.items()})
    paragraphs = (cell(part) for part in re.split(r"\n\s*\n", head))
    parts = [f"{NOTE}# gRPC contract", f"Package `{file.package}`.", *paragraphs, *shown.parts()]
    return "\n\n".join(parts) + "\n"


class Contract:
    """Services, messages and enums of a file, as Markdown."""

    def __init__(self, file: FileDescriptorProto, comments: dict[Place, str]) -> None:
        self._file = file
        self._comments = comments
        self._prefix = f".{file.package}."

    def parts(self) -> Iterator[str]:
        """Yield headings, comments and tables."""
        for index, service in enumerate(self._file.service):
            yield from self._service(service, (SERVICES, index))
        yield "## Messages"
        for index, message in enumerate(self._file.message_type):
            yield from self._message(message, (MESSAGES, index), message.name)
        yield "## Enums"
        for index, enum in enumerate(self._file.enum_type):
            yield from self._enum(enum, (ENUMS, index), enum.name)

    def _about(self, path: Place, name: str) -> str:
        text = self._comments.get(path, "")
        if not text.strip():
            raise MissingComment(f"{name} has no comment in {self._file.name}")
        return cell(text)

    def _service(self, service: ServiceDescriptorProto, path: Place) -> Iterator[str]:
        yield f"## {service.name}"
        yield self._about(path, service.name)
        for index, method in enumerate(service.method):
            sent = ("stream " if method.client_streaming else "") + self._link(method.input_type)
            got = ("stream " if method.server_streaming else "") + self._link(method.output_type)
            yield f"### {method.name}"
            yield f"{sent} → {got}"
            yield self._about((*path, METHODS, index), f"{service.name}.{method.name}")

    def _message(self, message: DescriptorProto, path: Place, name: str) -> Iterator[str]:
        yield f"### {name}"
        yield self._about(path, name)
        if message.field:
            rows = [
                (
                    code(field.name),
                    self._type(message, field),
                    self._about((*path, FIELDS, index), f"{name}.{field.name}"),
                )
                for index, field in enumerate(message.field)
            ]
            yield table(("field", "type", "meaning"), rows)
        for index, nested in enumerate(message.nested_type):
            yield from self._message(nested, (*path, NESTED, index), f"{name}.{nested.name}")
        for index, enum in enumerate(message.enum_type):
            yield from self._enum(enum, (*path, NESTED_ENUMS, index), f"{name}.{enum.name}")

    def _enum(self, enum: EnumDescriptorProto, path: Place, name: str) -> Iterator[str]:
        yield f"### {name}"
        yield self._about(path, name)
        rows = [
            (code(value.name), str(value.number), self._about((*path, VALUES, index), value.name))
            for index, value in enumerate(enum.value)
        ]
        yield table(("value", "number", "meaning"), rows)

    def _type(self, message: DescriptorProto, field: FieldDescriptorProto) -> str:
        shown = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        if field.type_name:
            shown = self._link(field.type_name)
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {shown}"
        if field.proto3_optional:
            return f"optional {shown}"
        if field.HasField("oneof_index"):
            return f"{shown}, one of {code(message.oneof_decl[field.oneof_index].name)}"
        return shown

    def _link(self, type_name: str) -> str:
        name = type_name.removeprefix(self._prefix)
        return f"[{name}](#{anchor(name)})" if name != type_name else name


def anchor(name: str) -> str:
    """Return the anchor of a heading."""
    return name.replace(".", "").lower()
