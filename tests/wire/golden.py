"""Recorded messages of a published version: bytes on the wire, and their meaning."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from headlight.pb import headlight_pb2 as pb

FOLDER = Path(__file__).parent
VERSIONS = ("0.1.0", "0.2.0")
METHODS = pb.DESCRIPTOR.services_by_name["HeadlightService"].methods
TYPES: dict[str, tuple[type[Message], type[Message]]] = {
    each.name: (getattr(pb, each.input_type.name), getattr(pb, each.output_type.name))
    for each in METHODS
}


class Recorded(NamedTuple):
    """One call.

    Attributes:
        requests, responses: serialised; several of a stream alone.
        said: by "requests" and "responses", each message as `meaning` had it when it was recorded.
    """

    version: str
    name: str
    method: str
    requests: list[bytes]
    responses: list[bytes]
    said: dict[str, list[Any]]

    def parsed(self, side: str) -> list[Any]:
        """Return its messages, read by the stubs of today."""
        kind = TYPES[self.method][side == "responses"]
        return [
            kind.FromString(raw)
            for raw in (self.responses if side == "responses" else self.requests)
        ]


def recorded() -> list[Recorded]:
    """Return all calls of all versions."""
    found = []
    for version in VERSIONS:
        folder = FOLDER / version
        for name, call in json.loads((folder / "meaning.json").read_text(encoding="utf-8")).items():
            requests, responses = (
                unpack(folder / f"{name}.{side}.bin") for side in ("requests", "responses")
            )
            found.append(Recorded(version, name, call["method"], requests, responses, call))
    return found


def meaning(message: Message) -> Any:
    """Return a message as JSON by the names of its fields.

    The data of tensors is replaced by its digest.
    """
    copy = type(message)()
    copy.CopyFrom(message)
    for part in parts(copy):
        if isinstance(part, pb.Tensor | pb.RaggedTensor | pb.Chunk) and part.data:
            part.data = hashlib.sha256(part.data).digest()
    return json_format.MessageToDict(copy, preserving_proto_field_name=True)


def contract(version: str) -> FileDescriptorProto:
    """Return the contract as that version published it."""
    return FileDescriptorProto.FromString((FOLDER / version / "descriptor.bin").read_bytes())


def as_known_to(version: str, message: Message) -> Message:
    """Return the message as a reader of that version sees it: without later fields."""
    published = contract(version)
    known = {
        (f"{published.package}.{name}", field.number)
        for name, each in _messages(published)
        for field in each.field
    }
    aged = type(message)()
    aged.CopyFrom(message)
    for part in [*parts(aged)]:
        for field, _ in part.ListFields():
            if (part.DESCRIPTOR.full_name, field.number) not in known:
                part.ClearField(field.name)
    return aged


def _messages(published: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """Return all messages of a contract by name, nested ones included."""
    waiting = [(each.name, each) for each in published.message_type]
    while waiting:
        name, each = waiting.pop()
        yield name, each
        waiting += [(f"{name}.{inner.name}", inner) for inner in each.nested_type]


def parts(message: Message) -> Iterator[Message]:
    """Return the message and all messages in it; maps have only texts."""
    yield message
    for field, value in message.ListFields():
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.type == field.TYPE_MESSAGE and not is_map:
            for each in value if field.is_repeated else [value]:
                yield from parts(each)


def unpack(path: Path) -> list[bytes]:
    """Return the messages of a file, each after its length in 4 bytes, big-endian."""
    raw, at, found = path.read_bytes(), 0, []
    while at < len(raw):
        (length,) = struct.unpack_from(">I", raw, at)
        found.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def pack(path: Path, messages: Sequence[Message]) -> None:
    """Write such a file."""
    raw = [message.SerializeToString(deterministic=True) for message in messages]
    path.write_bytes(b"".join(struct.pack(">I", len(each)) + each for each in raw))
