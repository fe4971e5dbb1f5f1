"""Reassembly of an answer, whole or from frames, without trust in its sizes and positions.

    header  --layouts_of-->  one preallocated buffer per output
    chunk   --locate------>  bytes copied to their place, each place once
    end     --complete---->  Answer

A chunk has its position twice, by meaning (item, layer, head, rows) and by offset. Both must agree.
"""

from __future__ import annotations

import bisect
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
from headlight.wire.client_codec import dtype_of, from_bytes, malformed, native, require

RAGGED_OUTPUTS = ("tokens", "attention", "hidden", "attention_indices", "attention_scales")
OUTPUTS = {number: name for name, number in OUTPUT_KINDS.items()}


@dataclasses.dataclass(slots=True)
class Layout:
    """Layout of one output's numbers: a tensor for each part, end to end."""

    dtype: np.dtype[Any]
    offsets: tuple[int, ...]  # elements; one more than parts
    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]  # of each shape
    layers: tuple[int, ...] = ()  # absolute; empty if the output has none

    @property
    def size_bytes(self) -> int:
        """Bytes in all."""
        return self.offsets[-1] * self.dtype.itemsize

    def locate(self, chunk: pb.Chunk, part: int) -> int:
        """Return the first byte of a chunk of a part.

        Raises BadAnswer if its meaning, offset and size disagree.
        """
        require(part < len(self.shapes), f"a chunk of input {part}, of {len(self.shapes)}")
        layers, heads, rows, width = grid(self.axes, self.shapes[part])
        all_rows = (chunk.row_begin, chunk.row_end) == (0, rows)
        require(
            chunk.layer < layers
            and chunk.head_begin < chunk.head_end <= heads
            and chunk.row_begin < chunk.row_end <= rows
            and (all_rows or chunk.head_end == chunk.head_begin + 1),
            f"a chunk of layer {chunk.layer}, heads {chunk.head_begin} to {chunk.head_end}, "
            f"rows {chunk.row_begin} to {chunk.row_end}, outside its output",
        )
        row = (chunk.layer * heads + chunk.head_begin) * rows + chunk.row_begin
        begin = self.dtype.itemsize * (self.offsets[part] + row * width)
        count = (chunk.head_end - chunk.head_begin) * (chunk.row_end - chunk.row_begin)
        require(
            chunk.offset_bytes == begin and len(chunk.data) == self.dtype.itemsize * count * width,
            (
                f"a chunk of {len(chunk.data)} bytes at {chunk.offset_bytes}, "
                "which its rows contradict"
            ),
        )
        return begin


def layouts_of(response: pb.EncodeResponse) -> dict[str, Layout]:
    """Return the layout of each output that a response holds or announces.

    Raises BadAnswer for an impossible one.
    """
    counts = [item.token_count for item in response.items]
    pooled = {
        pooled_key(at): pooled_layout(tensor, len(counts))
        for at, tensor in enumerate(response.pooled)
    }
    ragged = [output for output in RAGGED_OUTPUTS if response.HasField(output)]
    return pooled | {output: ragged_layout(output, response, counts) for output in ragged}


def pooled_key(at: int) -> str:
    """Return the layout key of pooled vectors in one type: each type is an output of its own."""
    return f"pooled[{at}]"


def pooled_layout(tensor: pb.Tensor, count: int) -> Layout:
    """Return the layout of pooled vectors: one part, whose rows are inputs."""
    shape = tuple(tensor.shape)
    if len(shape) != 2 or shape[0] != count or shape[1] < 1:
        raise malformed(f"pooled vectors of shape {shape} for {count} inputs")
    return Layout(dtype_of(tensor.dtype), (0, shape[0] * shape[1]), (shape,), ("item", "value"))


def ragged_layout(output: str, response: pb.EncodeResponse, counts: Sequence[int]) -> Layout:
    """Return the layout of one part for each input, whose shapes the inputs and axes must allow."""
    tensor: pb.RaggedTensor = getattr(response, output)
    axes, offsets, layers = axes_of(output, response), tuple(tensor.offsets), tuple(tensor.layers)
    shapes = tuple(tuple(extents.sizes) for extents in tensor.shapes)
    sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
    require(
        offsets[:1] == (0,) and len(sizes) == len(counts) and bool(layers) != (output == "tokens"),
        f"{output}: {len(layers)} layers and {len(offsets)} offsets for {len(counts)} inputs",
    )
    require(
        [math.prod(shape) for shape in shapes] == sizes and all(sizes),
        f"{output}: parts of {sizes[:8]} numbers in the shapes {shapes[:8]}",
    )
    for at, (shape, count) in enumerate(zip(shapes, counts, strict=True)):
        require(len(shape) == len(axes), f"{output}: the shape {shape} for the axes {axes}")
        expected = _expected(output, response, at, count, layers)
        wrong = [
            axis for axis, size in zip(axes, shape, strict=True) if expected.get(axis, size) != size
        ]
        require(
            not wrong,
            (
                f"{output}: the shape {shape} for an input of {count} tokens; "
                f"{', '.join(wrong)} out of place"
            ),
        )
    return Layout(dtype_of(tensor.dtype), offsets, shapes, axes, layers)


def _expected(
    output: str, response: pb.EncodeResponse, at: int, count: int, layers: Sequence[int]
) -> dict[str, int]:
    """Return the extents that some axes must have for one input of `count` tokens."""
    told = response.attention_map
    places = told.places[at] if at < len(told.places) else pb.AttentionPlaces()
    chosen = response.kept_tokens if output == "tokens" else response.hidden_tokens
    return {
        "layer": len(layers),
        "pair": len(layers),
        "head": len(told.heads),
        "statistic": len(told.statistics),
        "query": len(places.queries.starts or places.queries.tokens)
        if places.HasField("queries")
        else count,
        "key": len(places.keys.starts or places.keys.tokens) if places.HasField("keys") else count,
        "token": len(chosen[at].indices) if at < len(chosen) else count,
    }


# Compares an answer, or its header, with the request, before memory is reserved.
Check = Callable[[pb.EncodeResponse, dict[str, Layout]], None]


def unchecked(response: pb.EncodeResponse, layouts: dict[str, Layout]) -> None:
    """Accept any answer: the `Check` without a request."""


@dataclasses.dataclass(slots=True)
class Answer:
    """Complete answer: the response, and the numbers of each output, whole or from chunks."""

    response: pb.EncodeResponse
    layouts: dict[str, Layout]
    data: dict[str, NDArray[Any]]  # flat, as sent

    def part(self, output: str, index: int) -> NDArray[Any]:
        """Return a view of the numbers at an index.

        Pooled: [N, D] in the type at this index. Other outputs: of the input at this index. Tokens,
        hidden and attention have the axes of the answer.

        Raises:
            BadAnswer: the answer lacks it.
        """
        if output == "pooled":
            output, index = pooled_key(index), 0
        require(output in self.layouts, f"it lacks {output}, which was asked for")
        layout = self.layouts[output]
        return self.data[output][layout.offsets[index] : layout.offsets[index + 1]].reshape(
            layout.shapes[index]
        )


def whole_answer(response: pb.EncodeResponse, inputs: int, check: Check = unchecked) -> Answer:
    """Decode an answer of one message to so many inputs.

    Raises BadAnswer if it breaks the contract.
    """
    check_items(response, inputs)
    layouts = layouts_of(response)
    check(response, layouts)
    tensors = {pooled_key(at): tensor for at, tensor in enumerate(response.pooled)}
    data = {
        output: from_bytes(
            layout.dtype,
            (tensors.get(output) or getattr(response, output)).data,
            layout.offsets[-1],
        )
        for output, layout in layouts.items()
    }
    return Answer(response, layouts, data)


def check_items(response: pb.EncodeResponse, inputs: int) -> None:
    """Raise BadAnswer unless every input has its entry."""
    if len(response.items) != inputs:
        raise malformed(f"{len(response.items)} entries for {inputs} inputs")


def reserved(output: str, layout: Layout) -> NDArray[Any]:
    """Return memory for one output. Raises BadAnswer if there is not enough."""
    try:
        return np.empty(layout.offsets[-1], layout.dtype)
    except (MemoryError, ValueError, OverflowError):  # the latter two: beyond any address
        raise BadAnswer(
            f"the server's answer announces {layout.size_bytes} bytes of {output}, and this "
            "process has no memory for them; ask for less at once, "
            "and check that the server is the right one"
        ) from None


class Coverage:
    """Written bytes of a buffer, as the edges of their runs: sorted, begins and ends alternate."""

    def __init__(self) -> None:
        self._edges: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Mark begin .. end-1. Raises BadAnswer if one of them is marked already.

        The bytes from each even edge to the next are marked: after an even number of edges, the
        next bytes are free. Two runs that meet share no edge: [0, 5] and 5 .. 9 make [0, 9].
        """
        at = bisect.bisect_right(self._edges, begin)
        free = at % 2 == 0 and at == bisect.bisect_left(self._edges, end)
        require(free, f"two chunks overlap in bytes {begin} to {end}")
        touched = slice(
            bisect.bisect_left(self._edges, begin), bisect.bisect_right(self._edges, end)
        )
        self._edges[touched] = sorted({begin, end}.symmetric_difference(self._edges[touched]))

    def is_whole(self, size: int) -> bool:
        """Return whether bytes 0 .. size-1, and no others, are marked."""
        return self._edges == [0, size]


class Assembly:
    """Answer to one request of a stream, frame by frame.

    Args:
        inputs: number of inputs of the request.
        max_bytes: refuses a header that announces more; 0: no bound.
        check: refuses a header that does not fit the request.
        keep: whether to store chunks for the answer. If not, they are only checked. The answer then
            has no data unless it came whole.

    Attributes:
        header: empty before it arrives.
        layouts: of the outputs that it announces, one at least.
    """

    def __init__(
        self, inputs: int, max_bytes: int = 0, check: Check = unchecked, *, keep: bool = True
    ) -> None:
        self._inputs, self._max_bytes, self._check, self._keep = inputs, max_bytes, check, keep
        self.header = pb.EncodeResponse()
        self.layouts: dict[str, Layout] = {}
        self._buffers: dict[str, NDArray[Any]] = {}
        self._covered: dict[str, Coverage] = {}
        self._chunks = self._size = 0

    def receive(self, frame: pb.EncodeStreamResponse) -> Answer | None:
        """Take the next frame. Return the complete answer with the last one, else None.

        Raises:
            BadAnswer: the frame does not follow from those before it.
        """
        kind, begun = frame.WhichOneof("frame"), bool(self.layouts)
        if kind == "chunk" and begun:
            self._place(frame.chunk)
        elif kind == "end" and begun:
            return self._complete(frame.end)
        elif kind == "header" and not begun:
            self._begin(frame.header)
        elif kind == "response" and not begun:
            return whole_answer(frame.response, self._inputs, self._check)
        else:
            raise malformed(f"a frame of kind {kind!r} {'after' if begun else 'before'} the header")
        return None

    def _begin(self, header: pb.EncodeResponse) -> None:
        check_items(header, self._inputs)
        layouts = layouts_of(header)
        self._size = sum(layout.size_bytes for layout in layouts.values())
        require(
            not 0 < self._max_bytes < self._size,
            f"{self._size} bytes announced, more than the server's own limit of {self._max_bytes}",
        )
        self._check(header, layouts)
        if self._keep:
            self._buffers = {output: reserved(output, layout) for output, layout in layouts.items()}
        self._covered = {output: Coverage() for output in layouts}
        self.header, self.layouts = header, layouts

    def _place(self, chunk: pb.Chunk) -> None:
        output, part = OUTPUTS.get(chunk.output, ""), chunk.item
        if output == "pooled":
            output, part = pooled_key(chunk.item), 0
        require(
            output in self.layouts, f"a chunk of output {chunk.output}, which was not announced"
        )
        begin = self.layouts[output].locate(chunk, part)
        end = begin + len(chunk.data)
        self._covered[output].add(begin, end)
        if self._keep:
            self._buffers[output].view(np.uint8)[begin:end] = np.frombuffer(chunk.data, np.uint8)
        self._chunks += 1

    def _complete(self, end: pb.StreamEnd) -> Answer:
        missing = [
            name
            for name, layout in self.layouts.items()
            if not self._covered[name].is_whole(layout.size_bytes)
        ]
        told = (end.chunks, end.data_bytes) == (self._chunks, self._size)
        require(
            told and not missing,
            f"chunks are missing ({', '.join(missing) or 'by the count at the end'})",
        )
        return Answer(
            self.header,
            self.layouts,
            {output: native(buffer) for output, buffer in self._buffers.items()},
        )
