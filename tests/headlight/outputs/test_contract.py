"""Detection of unknown fields in a message.

At any depth, in any encoding.
"""

from __future__ import annotations

import tracemalloc

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from headlight.outputs.contract import has_unknown
from headlight.pb import headlight_pb2 as pb

UNKNOWN = b"\xa0\x06\x01"  # field 100, the number 1


def number(field: int, value: bytes) -> bytes:
    """Return an encoded integer field."""
    return bytes([field << 3]) + value


def message(field: int, *parts: bytes) -> bytes:
    """Return an encoded field of less than 128 bytes: a message, a text or a packed list."""
    content = b"".join(parts)
    return bytes([field << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(message(15), id="an output"),
        pytest.param(UNKNOWN, id="a number"),
        pytest.param(message(3, UNKNOWN), id="a refinement"),
        pytest.param(message(5, UNKNOWN), id="of a message that has none"),
        pytest.param(message(3, message(7, message(3, UNKNOWN))), id="of a selector's span"),
        pytest.param(
            message(3, message(5, number(1, b"\1")), message(5, UNKNOWN)), id="of the second pair"
        ),
        pytest.param(message(3, number(7, b"\1")), id="a selector that is a number"),
        pytest.param(message(3) + message(3, UNKNOWN), id="of a message in two parts"),
        pytest.param(b"\x3b\x3c", id="a group"),
        pytest.param(UNKNOWN * 1000, id="many"),
    ],
)
def test_an_unknown_field_is_detected_at_any_depth(written: bytes) -> None:
    assert has_unknown(pb.Outputs.FromString(written))
    request = pb.OccludeRequest(tokens=pb.TokenSelector(span=pb.TextSpan.FromString(UNKNOWN)))
    assert has_unknown(request)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(message(3, message(1, b"\1\2")), id="packed"),
        pytest.param(message(3, number(1, b"\1"), number(1, b"\2")), id="unpacked"),
        pytest.param(
            message(3, number(13, b"\0"), number(9, b"\0")), id="defaults that need not be sent"
        ),
        pytest.param(
            message(3, number(9, b"\x82\x80\x00")), id="a number in more bytes than it needs"
        ),
        pytest.param(b"\x9a\x80\x00\x82\x00" + number(9, b"\2"), id="a tag and a length that do"),
        pytest.param(
            message(3, number(9, b"\1")) + message(1) + message(3, number(9, b"\2")),
            id="in parts, out of order",
        ),
        pytest.param(
            message(3, number(9, b"\x63"), message(6, b"\x63\x62")),
            id="values that enumerations have not",
        ),
        pytest.param(
            message(3, message(7, number(1, b"\1"), message(3))), id="two of which the last counts"
        ),
    ],
)
def test_other_encodings_of_known_fields_are_accepted(written: bytes) -> None:
    outputs = pb.Outputs.FromString(written)
    before = outputs.SerializeToString(deterministic=True)
    assert not has_unknown(outputs)
    assert outputs.SerializeToString(deterministic=True) == before


def walked(part: Message) -> bool:
    """Detect unknown fields by visiting every message."""
    if len(UnknownFieldSet(part)):
        return True
    for field, value in part.ListFields():
        if field.message_type is not None and any(
            map(walked, value if field.is_repeated else (value,))
        ):
            return True
    return False


NUMBERS = st.builds(
    number, st.integers(1, 15), st.sampled_from([b"\0", b"\1", b"\x81\x00", b"\xff\x01"])
)
PARTS = st.recursive(
    NUMBERS,
    lambda inner: st.builds(
        lambda field, parts: message(field, *parts[:3]), st.integers(1, 15), st.lists(inner)
    ),
).filter(lambda written: len(written) < 40)


@given(st.lists(PARTS, max_size=4))
def test_detection_of_unknown_fields_matches_a_full_walk(parts: list[bytes]) -> None:
    for kind in (pb.Outputs, pb.OccludeRequest):
        try:
            read = kind.FromString(b"".join(parts))
        except DecodeError:
            continue
        assert has_unknown(read) == walked(read)


def test_many_unknown_fields_create_no_objects() -> None:
    deep = message(4, message(3, message(2, UNKNOWN)))
    for outputs in (pb.Outputs.FromString(UNKNOWN * 200_000), pb.Outputs.FromString(deep * 50_000)):
        tracemalloc.start()
        try:
            assert has_unknown(outputs)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20  # less than two such messages
        finally:
            tracemalloc.stop()
