from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, Client
from headlight.client.calls.attention_pieces import Pieces
from headlight.errors import EngineError, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.results import AttentionPiece
from headlight.spec import AttentionSpec
from headlight.wire.client_codec import from_model
from tests.headlight.fake_model import answer, frames_of
from tests.headlight.fake_server import FakeServicer, Refusal, abort, default_limits, serving

Frames = list[pb.EncodeStreamResponse]
OUTPUTS = pb.Outputs(attention=pb.AttentionOutput(layers=[2, 0]))


def whole() -> pb.EncodeResponse:
    return answer(
        pb.EncodeRequest(inputs=[pb.Input(text="one two three")], outputs=OUTPUTS), max_length=32
    )


def taken(frames: Frames) -> list[AttentionPiece]:
    pieces = Pieces("", "one two three", AttentionSpec(layers=(2, 0)), {})
    pieces.expect(from_model(FakeServicer(default_limits()).GetModel(pb.GetModelRequest(), None)))
    found = [piece for frame in frames for piece in pieces.receive(frame)]
    pieces.finish()
    return found


def test_pieces_carry_their_offsets() -> None:
    response = whole()
    n = response.items[0].token_count
    expected = np.frombuffer(response.attention.data, "<f4").reshape(2, -1, n, n)
    for piece in taken(frames_of("pieces", response, rows_per_chunk=2)):
        layer = [2, 0].index(piece.layer)
        rows = expected[
            layer, piece.heads.start : piece.heads.stop, piece.rows.start : piece.rows.stop
        ]
        np.testing.assert_array_equal(piece.values, rows)


def test_pieces_are_read_only() -> None:
    """Otherwise code that writes to them would fail only for long texts."""
    small = taken([pb.EncodeStreamResponse(id="pieces", response=whole())])
    assert [piece.layer for piece in small] == [2, 0], "a small answer is one piece per layer"
    large = taken(frames_of("pieces", whole()))
    assert not any(piece.values.flags.writeable for piece in [*small, *large])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frames: frames[1:], id="no header"),
        pytest.param(lambda frames: [frames[0], frames[0]], id="two headers"),
        pytest.param(lambda frames: frames[:-1], id="no end"),
        pytest.param(lambda frames: [*frames[:2], frames[-1]], id="chunks missing"),
        pytest.param(lambda frames: [*frames[:2], *frames[1:]], id="a chunk twice"),
        pytest.param(lambda frames: [], id="nothing"),
        pytest.param(
            lambda frames: [pb.EncodeStreamResponse(id="pieces", response=whole())] * 2,
            id="whole twice",
        ),
        pytest.param(lambda frames: [*frames, frames[-1]], id="two ends"),
    ],
)
def test_an_incomplete_answer_is_malformed(change: Callable[[Frames], Frames]) -> None:
    with pytest.raises(EngineError, match="malformed"):
        taken(change(frames_of("pieces", whole())))


@dataclasses.dataclass
class Draining(FakeServicer):
    """Fake that answers the requests it has read, then ends the stream as a stopping server."""

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        yield from super().EncodeStream(requests, context)
        abort(context, Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))


@pytest.mark.parametrize("small", [False, True])
async def test_a_stream_that_breaks_after_a_complete_answer_is_no_error(small: bool) -> None:
    spec, servicer = AttentionSpec(layers=(2, 0)), Draining(default_limits())
    if small:
        servicer.change_frames = lambda frames: [
            pb.EncodeStreamResponse(id="pieces", response=whole())
        ]
    with serving(servicer) as target, Client(target) as client:
        expected = [piece.layer for piece in client.attention_pieces("one two three", spec)]
        async with AsyncClient(target) as other:
            found = [piece.layer async for piece in other.attention_pieces("one two three", spec)]
    assert set(expected) == {2, 0}
    assert found == expected
    assert len(servicer.encoded) == 2  # one request each


def test_a_stream_that_breaks_before_a_complete_answer_is_an_error() -> None:
    servicer = Draining(default_limits(), change_frames=lambda frames: frames[:-1])
    with (
        serving(servicer) as target,
        Client(target) as client,
        pytest.raises(Unavailable, match="draining"),
    ):
        list(client.attention_pieces("one two three", AttentionSpec()))
