"""JSON as the contract's messages: every message has one form, and errors name the field."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.refusals import text_of
from headlight_service.frontends.contract.json_decoding import LONGEST_LIST, message_of
from headlight_service.frontends.contract.json_encoding import json_value

SECRET = "confidential text"
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    FieldDescriptor.CPPTYPE_STRING: st.text(max_size=5),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


@st.composite
def messages(draw: st.DrawFn, kind: Any) -> Any:
    """Draw a message of this kind; each field is set or not, of a oneof at most one."""
    message, chosen = kind(), set[str]()
    for field in kind.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if not draw(st.booleans()) or (oneof is not None and oneof.name in chosen):
            continue
        chosen |= set() if oneof is None else {oneof.name}
        count = draw(st.integers(1, 3)) if field.is_repeated else 1
        if field.message_type is not None:
            inner = getattr(pb, field.message_type.name)
            values = [draw(messages(inner)) for _ in range(count)]
        elif field.enum_type is not None:
            names = [each.number for each in field.enum_type.values]
            values = [draw(st.sampled_from(names)) for _ in range(count)]
        else:
            values = [draw(SCALARS[field.cpp_type]) for _ in range(count)]
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(values[0])
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, values[0])
    return message


@pytest.mark.parametrize("kind", [pb.EncodeRequest, pb.OccludeRequest])
@given(data=st.data())
def test_messages_survive_json(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    value = orjson.loads(orjson.dumps(json_value(message)))
    assert message_of(kind, value) == message
    # What is written is JSON as protobuf's own reader reads it.
    assert json_format.ParseDict(value, kind()) == message


def test_presence_alone_requests_an_output() -> None:
    found = message_of(pb.EncodeRequest, {"outputs": {"pooled": {}, "token_info": {}}})
    assert found.outputs.HasField("pooled")
    assert found.outputs.HasField("token_info")
    assert not found.outputs.HasField("attention")


def test_null_is_absence() -> None:
    value = {
        "model": None,
        "prompt_name": None,
        "prompt_text": "",
        "outputs": {"pooled": None, "attention": {"top_k": None}},
    }
    expected = pb.EncodeRequest(prompt_text="", outputs={"attention": {}})
    assert message_of(pb.EncodeRequest, value) == expected


def test_whole_floats_are_integers() -> None:
    value = {"inputs": [{"ids": {"ids": [1.0, 2]}}]}
    assert list(message_of(pb.EncodeRequest, value).inputs[0].ids.ids) == [1, 2]


BAD: list[tuple[Any, str, str]] = [
    ([], "", "the body is a list; send an object"),
    (SECRET, "", "the body is a string; send an object"),
    ({"inptus": []}, "inptus", "is no field of EncodeRequest; did you mean inputs?"),
    ({"dryRun": True}, "dryRun", "did you mean dry_run?"),
    ({"inputs": [{"q": 1}]}, "inputs[0].q", "there is text, pair, ids, head_mask"),
    ({"outputs": {"token_info": {"x": 1}}}, "outputs.token_info.x", "there is none"),
    ({"inputs": [{}, {"text": 3}]}, "inputs[1].text", "is a number; send a string"),
    ({"inputs": SECRET}, "inputs", "is a string; send a list"),
    ({"inputs": {"text": SECRET}}, "inputs", "is an object; send a list"),
    ({"inputs": [SECRET]}, "inputs[0]", "is a string; send an object"),
    ({"inputs": [None]}, "inputs[0]", "is null; send an object"),
    (
        {"inputs": [{"text": SECRET, "ids": {"ids": [1]}}]},
        "inputs[0].ids",
        "is set, and so is text; send one",
    ),
    ({"prompt_name": "a", "prompt_text": "b"}, "prompt_text", "so is prompt_name; send one"),
    (
        {"inputs": [{"ids": {"ids": [1, 2, SECRET]}}]},
        "inputs[0].ids.ids[2]",
        "is a string; send an integer from -9223372036854775808",
    ),
    ({"inputs": [{"ids": {"ids": [1.5]}}]}, "inputs[0].ids.ids[0]", "is a fraction"),
    ({"inputs": [{"ids": {"ids": [True]}}]}, "inputs[0].ids.ids[0]", "is a boolean"),
    ({"inputs": [{"ids": {"ids": [1 << 63]}}]}, "inputs[0].ids.ids[0]", "is out of range"),
    ({"inputs": [{"ids": {"ids": [1e300]}}]}, "inputs[0].ids.ids[0]", "is out of range"),
    ({"outputs": {"pooled": True}}, "outputs.pooled", "is a boolean; send an object"),
    ({"outputs": {"pooled": {"dimensions": -1}}}, "outputs.pooled.dimensions", "from 0 to 42949"),
    ({"outputs": {"pooled": {"normalize": 1}}}, "outputs.pooled.normalize", "send a boolean"),
    (
        {"outputs": {"attention": {"reduce": ["HEAD_MEAN"]}}},
        "outputs.attention.reduce[0]",
        "is no Reduction; did you mean REDUCTION_HEAD_MEAN? Accepted: REDUCTION_HEAD_MEAN, ",
    ),
    (
        {"outputs": {"attention": {"reduce": "REDUCTION_ROLLOUT"}}},
        "outputs.attention.reduce",
        "is a string; send a list",
    ),
    ({"priority": "bulk"}, "priority", "did you mean PRIORITY_BULK?"),
    ({"priority": "#"}, "priority", "send one of PRIORITY_INTERACTIVE, PRIORITY_BULK"),
    ({"truncation": 2}, "truncation", "is a number; send a string, one of TRUNCATION_REFUSE"),
    ({"dry_run": "yes"}, "dry_run", "is a string; send a boolean"),
    (
        {"inputs": [{"head_mask": {"values": [1, "x"]}}]},
        "inputs[0].head_mask.values[1]",
        "is a string; send a number",
    ),
    ({"a\n\x1b" + "b" * 200: 1}, "a\\n\\x1b" + "b" * 61, "is no field of EncodeRequest"),
    ({"": 1}, "", "is no field of EncodeRequest"),
    ({"inputs": [{}] * (LONGEST_LIST + 1)}, "inputs", "has 10001 entries; give at most 10000"),
]


@pytest.mark.parametrize(("value", "field", "problem"), BAD, ids=range(len(BAD)))
def test_bad_values_are_refused_by_their_field(value: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as error:
        message_of(pb.EncodeRequest, value)
    assert text_of(error.value.refusal.path) == field
    assert problem in error.value.problem
    assert SECRET not in error.value.message
    assert len(error.value.message) < 500


def test_a_long_list_is_refused_before_its_entries_are_read() -> None:
    with pytest.raises(InvalidInput, match="inputs: has 3 entries; give at most 2"):
        message_of(pb.EncodeRequest, {"inputs": [{"text": 1}] * 3}, longest_list=2)
