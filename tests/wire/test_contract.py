"""Today's contract and those of published versions.

It only adds, and their messages keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headlight.pb import headlight_pb2 as pb
from tests.wire.additive import broken
from tests.wire.golden import TYPES, VERSIONS, Recorded, contract, meaning, parts, recorded

RECORDED = recorded()
UNKNOWN = b"\xfa\xff\x01\x03new"  # field 4095 of type bytes: one that a later version has
ALL = pytest.mark.parametrize(
    "call", RECORDED, ids=[f"{call.version}-{call.name}" for call in RECORDED]
)
SIDES = pytest.mark.parametrize("side", ["requests", "responses"])


def contract_of_today() -> FileDescriptorProto:
    found = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(found)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_contract_only_adds(version: str) -> None:
    assert broken(contract(version), contract_of_today()) == []


def message(found: FileDescriptorProto, name: str) -> Any:
    return next(each for each in found.message_type if each.name == name)


def renumber(found: FileDescriptorProto) -> None:
    message(found, "Item").field[0].number = 99


def retype(found: FileDescriptorProto) -> None:
    message(found, "Item").field[0].type = 4


def rename(found: FileDescriptorProto) -> None:
    message(found, "Item").field[0].name = "tokens_encoded"


def remove(found: FileDescriptorProto) -> None:
    del message(found, "Item").field[0]


def make_single(found: FileDescriptorProto) -> None:
    message(found, "EncodeRequest").field[1].label = 1


def move_into_oneof(found: FileDescriptorProto) -> None:
    message(found, "EncodeRequest").field[0].oneof_index = 0


def remove_message(found: FileDescriptorProto) -> None:
    found.message_type.remove(message(found, "Usage"))


def change_enum(found: FileDescriptorProto) -> None:
    found.enum_type[0].value[1].number = 7


def remove_method(found: FileDescriptorProto) -> None:
    del found.service[0].method[0]


def stream_method(found: FileDescriptorProto) -> None:
    found.service[0].method[0].server_streaming = True


def retype_map(found: FileDescriptorProto) -> None:
    message(found, "Status").nested_type[0].field[1].type = 12


def rename_package(found: FileDescriptorProto) -> None:
    found.package = "headlight.v2"


BREAKING = [
    renumber,
    retype,
    rename,
    remove,
    make_single,
    move_into_oneof,
    remove_message,
    change_enum,
]
BREAKING += [remove_method, stream_method, retype_map, rename_package]


@pytest.mark.parametrize("change", BREAKING)
def test_every_kind_of_breaking_change_is_found(
    change: Callable[[FileDescriptorProto], None],
) -> None:
    changed = contract_of_today()
    change(changed)
    assert broken(contract_of_today(), changed) != []


def test_additions_break_no_contract() -> None:
    added = contract_of_today()
    message(added, "Item").field.add(name="new", number=4095, type=9, label=1)
    added.message_type.add(name="New")
    added.enum_type[0].value.add(name="NEW", number=77)
    added.service[0].method.add(name="New")
    assert broken(contract_of_today(), added) == []


@ALL
@SIDES
def test_recorded_messages_keep_their_meaning_and_unknown_fields_are_ignored(
    call: Recorded, side: str
) -> None:
    raw = call.requests if side == "requests" else call.responses
    kind = TYPES[call.method][side == "responses"]
    newer = [kind.FromString(each + UNKNOWN) for each in raw]
    assert [meaning(each) for each in newer] == call.said[side]
    # A peer in between passes them on.
    assert all(each.SerializeToString().endswith(UNKNOWN) for each in newer)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_methods_and_all_messages_of_the_contract_are_recorded(version: str) -> None:
    calls = [call for call in RECORDED if call.version == version]
    assert {call.method for call in calls} == {
        method.name for method in contract(version).service[0].method
    }
    messages = [
        each for call in calls for side in ("requests", "responses") for each in call.parsed(side)
    ]
    met = {part.DESCRIPTOR.name for whole in messages for part in parts(whole)}
    # The models have no prompts, no reduced precision whose quality was measured, and no vectors
    # that are sparse or one of many. In 0.1.0, none had pairs.
    absent = {"NamedPrompt", "Quality", "SparseOutput", "TermInfo", "MatchedTerms"}
    absent |= {"MultiVectorOutput"} | ({"TextPair"} if version == "0.1.0" else set())
    assert {each.name for each in contract(version).message_type} - met <= absent
