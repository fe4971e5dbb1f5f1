"""Today's client against servers of published versions and a newer one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from headlight import AsyncClient, Client
from headlight.pb import headlight_pb2 as pb
from tests.shipped import HEADS, LAYERS
from tests.wire.cases import TEXT
from tests.wire.golden import VERSIONS, Recorded, recorded
from tests.wire.replay import frames_of, replaying

Calls = dict[str, Recorded]
NEWER = b"\xfa\xff\x01\x03new"
PEERS = [*((version, b"") for version in VERSIONS), (VERSIONS[-1], NEWER)]
STOCK = {
    "GetModel": "model",
    "Encode": "pooled-prompt",
    "Tokenize": "tokenize",
    "Occlude": "occlude",
}


@pytest.fixture(params=PEERS, ids=[*VERSIONS, "newer"])
def peer(request: pytest.FixtureRequest) -> tuple[Calls, bytes]:
    version, more = request.param
    return {call.name: call for call in recorded() if call.version == version}, more


@pytest.fixture
def calls(peer: tuple[Calls, bytes]) -> Calls:
    return peer[0]


@pytest.fixture
def target(peer: tuple[Calls, bytes]) -> Iterator[str]:
    with replaying(peer[0], STOCK | {"EncodeStream": "stream/maps"}, peer[1]) as target:
        yield target


def answer(calls: Calls, name: str) -> pb.EncodeResponse:
    return pb.EncodeResponse.FromString(calls[name].responses[0])


def test_vectors_are_read_from_recorded_servers(calls: Calls, target: str) -> None:
    expected = np.frombuffer(answer(calls, "pooled-prompt").pooled[0].data, "<f4")
    with Client(target) as client:
        [vector] = client.encode([TEXT])
    np.testing.assert_array_equal(vector, expected)


async def test_vectors_are_read_from_recorded_servers_with_asyncio(
    calls: Calls, target: str
) -> None:
    expected = np.frombuffer(answer(calls, "pooled-prompt").pooled[0].data, "<f4")
    async with AsyncClient(target) as client:
        [vector] = await client.encode([TEXT])
    np.testing.assert_array_equal(vector, expected)


def test_chunked_attention_is_read_from_recorded_servers(calls: Calls, target: str) -> None:
    data = bytearray(LAYERS * HEADS * 9 * 9 * 4)
    for frame in frames_of(calls, "stream/maps"):
        if frame.chunk.output == pb.OUTPUT_KIND_ATTENTION:
            data[frame.chunk.offset_bytes : frame.chunk.offset_bytes + len(frame.chunk.data)] = (
                frame.chunk.data
            )
    with Client(target) as client:
        model = client.model()
        limits = dataclasses.replace(model.limits, max_unary_response_bytes=64)
        client._description = dataclasses.replace(model, limits=limits)  # so that it is streamed
        attention = client.attend(TEXT)
    assert attention.weights.tobytes() == bytes(data)
    assert attention.tokens.ids == tuple(
        frames_of(calls, "stream/maps")[0].header.items[0].tokens.ids
    )


def test_tokens_occlusion_and_description_are_read_from_recorded_servers(
    calls: Calls, target: str
) -> None:
    tokens = calls["tokenize"].parsed("responses")[0].items[0]
    occluded = calls["occlude"].parsed("responses")[0]
    described = calls["model"].parsed("responses")[0]
    with Client(target) as client:
        assert client.tokenize([TEXT])[0].ids == tuple(tokens.ids)
        moved = client.occlusion(TEXT, "all")
        assert moved.moved.tobytes() == occluded.moved.data
        assert client.model().name == described.model.name
