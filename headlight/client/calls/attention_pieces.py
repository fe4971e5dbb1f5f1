"""Attention piece by piece, as it arrives: for answers larger than the memory that one wants to spend on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.description import ModelDescription
from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.spec import AttentionSpec
from headlight.wire.answer_checks import Expected
from headlight.wire.answer_numbers import check_numbers, kind_of_attention
from headlight.wire.attention_codec import attention_output, grid
from headlight.wire.byte_coverage import Coverage
from headlight.wire.client_codec import Input, Reading, encode_request, malformed, native, to_input
from headlight.wire.reassembly import OUTPUTS, Layout, check_items, layouts_of, whole_answer
from headlight.wire.status_errors import error_of_status

REQUEST_ID = "pieces"


class AttentionPiece(NamedTuple):
    """Rows of the attention of one text: some of one head, or all of several heads of one layer.

    Attributes:
        layer: absolute; the layer of a pair; of reduced layers the first.
        heads: places on the axis "head", or of a pair 0 alone.
        rows: places on the axis "query".
        values: float32 or float16 [heads, rows, keys]; copy it to write to it.
    """

    layer: int
    heads: range
    rows: range
    values: NDArray[Any]


class Pieces:
    """What one call asks and makes of its frames. Holds no more than one frame."""

    def __init__(self, name: str, text: Input, spec: AttentionSpec, reading: Reading) -> None:
        """Make the request.

        Raises:
            InvalidInput: the spec's rows do not stand by themselves (uint8, top_k), or an argument is none that can be sent.
        """
        outputs = pb.Outputs(attention=attention_output(spec))
        if spec.dtype == "uint8" or spec.top_k is not None:
            raise InvalidInput(
                "attention", "with uint8 or top_k comes in two parts; use `attention`, or leave these out"
            )
        encode = encode_request(name, [to_input(text, "text")], outputs, reading)
        self.request = pb.EncodeStreamRequest(id=REQUEST_ID, encode=encode)
        self._name, self._text, self._reading = name, text, reading
        self._kind = kind_of_attention(spec)
        self._expected: Expected | None = None
        self._precision = ""
        self._layout: Layout | None = None
        self._covered = Coverage()
        self.unanswered = True  # whether something is still to come; where not, the stream may end as it will
        self.over = False  # whether nothing more comes on the stream: the request was refused

    def expect(self, model: ModelDescription) -> None:
        """Compare what comes with the model's description, too; to be called before a frame is received."""
        self._expected = Expected(model, self._name, self.request.encode.outputs, self._reading)

    @property
    def begun(self) -> bool:
        """Whether anything of the answer has come: then it cannot be asked for again."""
        return not self.unanswered or self._layout is not None

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """The only one."""
        yield self.request

    def receive(self, frame: pb.EncodeStreamResponse) -> Iterator[AttentionPiece]:
        """The pieces of the next frame.

        Raises:
            HeadlightError: the request was refused, or the frame does not follow from those before it.
        """
        kind = frame.WhichOneof("frame")
        self.over = kind == "error"
        if self.over:
            raise error_of_status(frame.error, 0)
        if not self.unanswered or frame.id != REQUEST_ID:
            raise malformed(f"a frame of kind {kind!r} behind the last, or of another request")
        if kind == "response" and self._layout is None:
            yield from self._whole(frame.response)
        elif kind == "header" and self._layout is None:
            check_items(frame.header, 1)
            layouts = layouts_of(frame.header)
            self._check(frame.header, layouts)
            self._layout = self._announced(layouts)
        elif kind == "chunk" and self._layout is not None:
            yield self._piece(self._layout, frame.chunk)
        elif kind == "end" and self._layout is not None:
            self.unanswered = not self._covered.is_whole(self._layout.size_bytes)
        else:
            raise malformed(f"a frame of kind {kind!r} out of its turn")

    def finish(self) -> None:
        """Raises BadAnswer unless everything has come."""
        if self.unanswered:
            raise malformed("the stream ended before all attention had come")

    def _announced(self, layouts: dict[str, Layout]) -> Layout:
        if "attention" not in layouts:
            raise malformed("it lacks attention, which was asked for")
        return layouts["attention"]

    def _check(self, response: pb.EncodeResponse, layouts: dict[str, Layout]) -> None:
        self._precision = response.model.precision
        if self._expected is not None:
            self._expected.check(response, layouts, [self._text])

    def _whole(self, response: pb.EncodeResponse) -> Iterator[AttentionPiece]:
        answer = whole_answer(response, 1, self._check)
        layout = self._announced(answer.layouts)
        layers, heads, rows, width = grid(layout.axes, layout.shapes[0])
        values = answer.part("attention", 0).reshape(layers, heads, rows, width)
        check_numbers("attention", values, self._kind, self._precision)
        values.flags.writeable = False  # as those of chunks, which lie in the messages that brought them
        for place in range(layers):
            yield AttentionPiece(layout.layers[place], range(heads), range(rows), values[place])
        self.unanswered = False

    def _piece(self, layout: Layout, chunk: pb.Chunk) -> AttentionPiece:
        if OUTPUTS.get(chunk.output) != "attention":
            raise malformed(f"a chunk of output {chunk.output}, which was not asked for")
        begin = layout.locate(chunk, chunk.item)
        self._covered.add(begin, begin + len(chunk.data))
        heads, rows = range(chunk.head_begin, chunk.head_end), range(chunk.row_begin, chunk.row_end)
        values = native(np.frombuffer(chunk.data, layout.dtype)).reshape(len(heads), len(rows), -1)
        check_numbers("attention", values, self._kind, self._precision)
        return AttentionPiece(layout.layers[chunk.layer], heads, rows, values)
