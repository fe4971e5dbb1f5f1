"""Puts the answer to a request together, whole or from frames, trusting none of the sizes and positions in it.

    header  --layouts_of-->  one preallocated buffer per output
    chunk   --locate------>  bytes copied to their place, each place once
    end     --complete---->  Answer

A chunk says where it belongs twice, by meaning (item, layer, head, rows) and by offset. Both must agree.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BadAnswer
from headlight.pb import headlight_pb2 as pb
from headlight.wire.attention_codec import OUTPUT_KINDS, axes_of, grid
from headlight.wire.byte_coverage import Coverage
from headlight.wire.client_codec import dtype_of, from_bytes, malformed, native

RAGGED_OUTPUTS = ("tokens", "attention", "hidden", "attention_indices", "attention_scales")
OUTPUTS = {number: name for name, number in OUTPUT_KINDS.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where the numbers of one output lie: a tensor for each part, end to end."""

    dtype: np.dtype[Any]
    offsets: tuple[int, ...]  # elements; one more than parts
    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]  # of each shape
    layers: tuple[int, ...] = ()  # absolute; empty where the output has none

    @property
    def size_bytes(self) -> int:
        """Bytes in all."""
        return self.offsets[-1] * self.dtype.itemsize

    def locate(self, chunk: pb.Chunk, part: int) -> int:
        """The byte at which a chunk of some part begins. Raises BadAnswer where its meaning, offset and size disagree."""
        if part >= len(self.shapes):
            raise malformed(f"a chunk of input {part}, of {len(self.shapes)}")
        layers, heads, rows, width = grid(self.axes, self.shapes[part])
        some_rows = (chunk.row_begin, chunk.row_end) != (0, rows)
        if (
            chunk.layer >= layers
            or not chunk.head_begin < chunk.head_end <= heads
            or not chunk.row_begin < chunk.row_end <= rows
            or (some_rows and chunk.head_end != chunk.head_begin + 1)
        ):
            where = f"heads {chunk.head_begin} to {chunk.head_end}, rows {chunk.row_begin} to {chunk.row_end}"
            raise malformed(f"a chunk of layer {chunk.layer}, {where}, outside its output")
        row = (chunk.layer * heads + chunk.head_begin) * rows + chunk.row_begin
        begin = self.dtype.itemsize * (self.offsets[part] + row * width)
        count = (chunk.head_end - chunk.head_begin) * (chunk.row_end - chunk.row_begin)
        if chunk.offset_bytes != begin or len(chunk.data) != self.dtype.itemsize * count * width:
            raise malformed(f"a chunk of {len(chunk.data)} bytes at {chunk.offset_bytes}, which its rows contradict")
        return begin


def layouts_of(response: pb.EncodeResponse) -> dict[str, Layout]:
    """The layout of each output that a response holds or announces. Raises BadAnswer for one that cannot be."""
    counts = [item.token_count for item in response.items]
    layouts = {pooled_key(at): pooled_layout(tensor, len(counts)) for at, tensor in enumerate(response.pooled)}
    for output in RAGGED_OUTPUTS:
        if response.HasField(output):
            layouts[output] = ragged_layout(output, response, counts)
    return layouts


def pooled_key(at: int) -> str:
    """What pooled vectors in one type are called among layouts: an output of their own for each type."""
    return f"pooled[{at}]"


def pooled_layout(tensor: pb.Tensor, count: int) -> Layout:
    """Pooled vectors are one part, whose rows are inputs."""
    shape = tuple(tensor.shape)
    if len(shape) != 2 or shape[0] != count or shape[1] < 1:
        raise malformed(f"pooled vectors of shape {list(shape)} for {count} inputs")
    return Layout(dtype_of(tensor.dtype), (0, shape[0] * shape[1]), (shape,), ("item", "value"))


def ragged_layout(output: str, response: pb.EncodeResponse, counts: Sequence[int]) -> Layout:
    """One part for each input, in the shape told, which must be one that the input and the axes can have."""
    tensor: pb.RaggedTensor = getattr(response, output)
    axes, offsets, layers = axes_of(output, response), tuple(tensor.offsets), tuple(tensor.layers)
    shapes = tuple(tuple(extents.sizes) for extents in tensor.shapes)
    sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
    if offsets[:1] != (0,) or len(sizes) != len(counts) or bool(layers) == (output == "tokens"):
        raise malformed(f"{output}: {len(layers)} layers and {len(offsets)} offsets for {len(counts)} inputs")
    if [math.prod(shape) for shape in shapes] != sizes or not all(sizes):
        raise malformed(f"{output}: parts of {sizes[:8]} numbers in the shapes {shapes[:8]}")
    for at, (shape, count) in enumerate(zip(shapes, counts, strict=True)):
        if len(shape) != len(axes):
            raise malformed(f"{output}: the shape {shape} for the axes {axes}")
        expected = _expected(output, response, at, count, layers)
        wrong = [axis for axis, size in zip(axes, shape, strict=True) if expected.get(axis, size) != size]
        if wrong:
            raise malformed(f"{output}: the shape {shape} for an input of {count} tokens; {wrong[0]} does not fit")
    if len({shape[axes.index("value")] for shape in shapes if "value" in axes}) > 1:
        raise malformed(f"{output}: the inputs differ in width")
    return Layout(dtype_of(tensor.dtype), offsets, shapes, axes, layers)


def _expected(output: str, response: pb.EncodeResponse, at: int, count: int, layers: Sequence[int]) -> dict[str, int]:
    """The extents that some axes must have for one input of `count` tokens."""
    told = response.attention_map
    expected = {"layer": len(layers), "pair": len(layers), "head": len(told.heads), "statistic": len(told.statistics)}
    places = told.places[at] if at < len(told.places) else pb.AttentionPlaces()
    for axis, units, given in (
        ("query", places.queries, places.HasField("queries")),
        ("key", places.keys, places.HasField("keys")),
    ):
        expected[axis] = len(units.starts or units.tokens) if given else count
    chosen = response.kept_tokens if output == "tokens" else response.hidden_tokens
    expected["token"] = len(chosen[at].indices) if at < len(chosen) else count
    return expected


# Compares what an answer holds, or announces, with what was asked for, before memory is reserved.
Check = Callable[[pb.EncodeResponse, dict[str, Layout]], None]


def unchecked(response: pb.EncodeResponse, layouts: dict[str, Layout]) -> None:
    """A `Check` of an answer that is looked at by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer: the response, and the numbers of each output wherever they came from."""

    response: pb.EncodeResponse
    layouts: dict[str, Layout]
    data: dict[str, NDArray[Any]]  # flat, as sent

    def part(self, output: str, index: int) -> NDArray[Any]:
        """A view: pooled [N, D] in the type asked for in this place; of each input: tokens, hidden, attention in the axes told.

        Raises:
            BadAnswer: the answer lacks it.
        """
        if output == "pooled":
            output, index = pooled_key(index), 0
        if output not in self.layouts:
            raise malformed(f"it lacks {output}, which was asked for")
        layout = self.layouts[output]
        return self.data[output][layout.offsets[index] : layout.offsets[index + 1]].reshape(layout.shapes[index])


def whole_answer(response: pb.EncodeResponse, inputs: int, check: Check = unchecked) -> Answer:
    """The answer that one message holds, to so many inputs. Raises BadAnswer where it breaks the contract."""
    check_items(response, inputs)
    layouts = layouts_of(response)
    check(response, layouts)
    tensors = {pooled_key(at): tensor for at, tensor in enumerate(response.pooled)}
    data = {
        output: from_bytes(layout.dtype, (tensors.get(output) or getattr(response, output)).data, layout.offsets[-1])
        for output, layout in layouts.items()
    }
    return Answer(response, layouts, data)


def check_items(response: pb.EncodeResponse, inputs: int) -> None:
    """Every input has its entry."""
    if len(response.items) != inputs:
        raise malformed(f"{len(response.items)} entries for {inputs} inputs")


def reserved(output: str, layout: Layout) -> NDArray[Any]:
    """Return memory for one output. Raises BadAnswer if there is not so much."""
    try:
        return np.empty(layout.offsets[-1], layout.dtype)
    except (MemoryError, ValueError, OverflowError):  # the latter two: more than an address can name
        raise BadAnswer(
            f"the server's answer announces {layout.size_bytes} bytes of {output}, and this process has no memory for "
            "them; ask for less at once, and check that the server is the right one"
        ) from None


class Assembly:
    """The answer to one request of a stream, frame by frame.

    Args:
        inputs: number of inputs of the request.
        max_bytes: refuses a header that announces more; 0: no bound.
        check: refuses a header that does not fit the request.
    """

    def __init__(self, inputs: int, max_bytes: int = 0, check: Check = unchecked) -> None:
        self._inputs = inputs
        self._max_bytes = max_bytes
        self._check = check
        self._header: pb.EncodeResponse | None = None
        self._layouts: dict[str, Layout] = {}
        self._buffers: dict[str, NDArray[Any]] = {}
        self._covered: dict[str, Coverage] = {}
        self._chunks = self._bytes = 0

    def receive(self, frame: pb.EncodeStreamResponse) -> Answer | None:
        """Takes the next frame; the complete answer with the last one, else None.

        Raises:
            BadAnswer: the frame does not follow from those before it.
        """
        kind = frame.WhichOneof("frame")
        if kind == "chunk" and self._header is not None:
            self._place(frame.chunk)
        elif kind == "end" and self._header is not None:
            return self._complete(self._header, frame.end)
        elif kind == "header" and self._header is None:
            self._begin(frame.header)
        elif kind == "response" and self._header is None:
            return whole_answer(frame.response, self._inputs, self._check)
        else:
            raise malformed(f"a frame of kind {kind!r} {'before' if self._header is None else 'after'} the header")
        return None

    def _begin(self, header: pb.EncodeResponse) -> None:
        check_items(header, self._inputs)
        self._layouts = layouts_of(header)
        size = sum(layout.size_bytes for layout in self._layouts.values())
        if 0 < self._max_bytes < size:
            raise malformed(f"{size} bytes announced, more than the server's own limit of {self._max_bytes}")
        self._check(header, self._layouts)
        for output, layout in self._layouts.items():
            self._buffers[output] = reserved(output, layout)
            self._covered[output] = Coverage()
        self._header = header

    def _place(self, chunk: pb.Chunk) -> None:
        output, part = OUTPUTS.get(chunk.output, ""), chunk.item
        if output == "pooled":
            output, part = pooled_key(chunk.item), 0
        if output not in self._layouts:
            raise malformed(f"a chunk of output {chunk.output}, which was not announced")
        begin = self._layouts[output].locate(chunk, part)
        end = begin + len(chunk.data)
        self._covered[output].add(begin, end)
        self._buffers[output].view(np.uint8)[begin:end] = np.frombuffer(chunk.data, np.uint8)
        self._chunks += 1
        self._bytes += len(chunk.data)

    def _complete(self, header: pb.EncodeResponse, end: pb.StreamEnd) -> Answer:
        missing = [
            name for name, layout in self._layouts.items() if not self._covered[name].is_whole(layout.size_bytes)
        ]
        if missing or (end.chunks, end.data_bytes) != (self._chunks, self._bytes):
            raise malformed(f"chunks are missing ({', '.join(missing) or 'by the count at the end'})")
        data = {output: native(buffer) for output, buffer in self._buffers.items()}
        return Answer(header, self._layouts, data)
