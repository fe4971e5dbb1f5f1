"""Attention piece by piece as it arrives, for answers too large for the caller's memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Reading
from headlight.interface.attention_grid import layer_pieces
from headlight.interface.checked_specs import check_pieces
from headlight.outputs.answer_numbers import check_numbers, kind_of_attention
from headlight.outputs.contract import require
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.results import AttentionPiece
from headlight.spec import AttentionSpec
from headlight.wire.answer_checks import Expected
from headlight.wire.client_codec import encode_request, native, to_input
from headlight.wire.reassembly import Answer, Assembly
from headlight.wire.status_errors import error_of_status

ATTENTION, REQUEST_ID = OUTPUTS["attention"], "pieces"


class Pieces:
    """Request of one call, and the pieces of its frames. Holds at most one frame.

    Attributes:
        begun: whether part of the answer has arrived; then no retry is possible.
        unanswered: whether part is still missing; if not, the stream may end in any way.
        over: whether the stream has ended, because the request was refused.
    """

    def __init__(self, name: str, text: Input, spec: AttentionSpec, reading: Reading) -> None:
        """Make the request.

        Raises:
            InvalidInput: the rows of the spec depend on others (uint8, top_k), or an argument
                cannot be sent.
        """
        self._spec = spec = ATTENTION.checked(spec, 1)
        outputs = pb.Outputs(attention=ATTENTION.message_of(spec))
        check_pieces(spec)
        encode = encode_request(name, [to_input(text, "text")], outputs, reading)
        self.request = pb.EncodeStreamRequest(id=REQUEST_ID, encode=encode)
        self._name, self._text, self._reading = name, text, reading
        self._kind = kind_of_attention(spec)
        self.begun, self.unanswered, self.over = False, True, False

    def expect(self, model: ModelDescription) -> None:
        """Check frames against the model's description. Call this before `receive`."""
        self._expected = Expected(model, self._name, {"attention": self._spec}, self._reading)
        expect = functools.partial(self._expected.check, inputs=[self._text])
        self._assembly = Assembly(expect, keep=False)

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """Yield the only request."""
        yield self.request

    def receive(self, frame: pb.EncodeStreamResponse) -> Iterator[AttentionPiece]:
        """Yield the pieces of the next frame.

        Raises:
            HeadlightError: the request was refused, or the frame does not continue those before it.
        """
        kind = frame.WhichOneof("frame")
        self.over = kind == "error"
        if self.over:
            raise error_of_status(frame.error, 0)
        expected = self.unanswered and frame.id == REQUEST_ID
        require(expected, f"a frame of kind {kind!r} behind the last, or of another request")
        answer = self._assembly.receive(frame)
        self.begun = True
        if kind == "response" and answer is not None:
            yield from self._layers(answer)
        elif kind == "chunk":
            yield self._rows(frame.chunk)
        self.unanswered = answer is None

    def finish(self) -> None:
        """Raise BadAnswer unless the answer is complete."""
        require(not self.unanswered, "the stream ended before all attention had come")

    def _layers(self, answer: Answer) -> Iterator[AttentionPiece]:
        layout = answer.announced.layouts["attention"]
        values = answer.part("attention", 0)
        self._expected.check_numbers(answer)
        values.flags.writeable = False  # as for chunks, which lie in the messages that brought them
        return layer_pieces(layout.axes, layout.layers, values)

    def _rows(self, chunk: pb.Chunk) -> AttentionPiece:
        layout = self._assembly.layouts["attention"]
        heads, rows = range(chunk.head_begin, chunk.head_end), range(chunk.row_begin, chunk.row_end)
        values = native(np.frombuffer(chunk.data, layout.dtype)).reshape(len(heads), len(rows), -1)
        precision = self._assembly.header.model.precision
        check_numbers("attention", values, self._kind, precision)
        return AttentionPiece(layout.layers[chunk.layer], heads, rows, values)
