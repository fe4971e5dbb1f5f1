from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headlight.errors import EngineError, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.pieces import AttentionPiece, Pieces
from headlight.spec import AttentionSpec
from tests.headlight.fake_model import answer, frames_of

Frames = list[pb.EncodeStreamResponse]
OUTPUTS = pb.Outputs(attention=pb.AttentionOutput(layers=[2, 0]))


def whole() -> pb.EncodeResponse:
    return answer(pb.EncodeRequest(inputs=[pb.Input(text="one two three")], outputs=OUTPUTS), max_length=32)


def taken(frames: Frames) -> list[AttentionPiece]:
    pieces = Pieces("", "one two three", AttentionSpec(layers=(2, 0)), {})
    found = [piece for frame in frames for piece in pieces.receive(frame)]
    pieces.finish()
    return found


def test_pieces_carry_their_places() -> None:
    response = whole()
    n = response.items[0].token_count
    expected = np.frombuffer(response.attention.data, "<f4").reshape(2, -1, n, n)
    for piece in taken(frames_of("pieces", response, rows_per_chunk=2)):
        layer = [2, 0].index(piece.layer)
        rows = expected[layer, piece.heads.start : piece.heads.stop, piece.rows.start : piece.rows.stop]
        np.testing.assert_array_equal(piece.values, rows)


def test_a_small_answer_is_a_piece_for_each_layer() -> None:
    found = taken([pb.EncodeStreamResponse(id="pieces", response=whole())])
    assert [piece.layer for piece in found] == [2, 0]


def test_whatever_brought_it_a_piece_is_only_to_be_read() -> None:
    """A caller that writes to it would else find out with the first long text."""
    small, large = [pb.EncodeStreamResponse(id="pieces", response=whole())], frames_of("pieces", whole())
    assert not any(piece.values.flags.writeable for frames in (small, large) for piece in taken(frames))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frames: frames[1:], id="no header"),
        pytest.param(lambda frames: [frames[0], frames[0]], id="two headers"),
        pytest.param(lambda frames: frames[:-1], id="no end"),
        pytest.param(lambda frames: [*frames[:2], frames[-1]], id="chunks missing"),
        pytest.param(lambda frames: [*frames[:2], *frames[1:]], id="a chunk twice"),
        pytest.param(lambda frames: [], id="nothing"),
        pytest.param(lambda frames: [pb.EncodeStreamResponse(id="pieces", response=whole())] * 2, id="whole twice"),
        pytest.param(lambda frames: [*frames, frames[-1]], id="two ends"),
    ],
)
def test_what_is_not_all_of_it_is_never_taken_for_it(change: Callable[[Frames], Frames]) -> None:
    with pytest.raises(EngineError, match="malformed"):
        taken(change(frames_of("pieces", whole())))


def test_a_refused_request_raises_what_the_service_said() -> None:
    refused = pb.Status(code=3, message="outputs.attention.layers[0]: is 9")
    with pytest.raises(InvalidInput, match="is 9"):
        taken([pb.EncodeStreamResponse(id="pieces", error=refused)])
