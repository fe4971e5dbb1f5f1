"""Puts the answer to a request together, whole or from frames, trusting none of the sizes and positions in it.

    header  --layouts_of-->  one preallocated float32 buffer per output
    chunk   --locate------>  bytes copied to their place, each place once
    end     --complete---->  Answer

A chunk says where it belongs twice, by meaning (item, layer, head, rows) and by offset. Both must agree.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from headlight.convert import from_bytes, malformed
from headlight.pb import headlight_pb2 as pb
from headlight.results import Floats

RAGGED_OUTPUTS = ("tokens", "attention", "hidden")
OUTPUT_KINDS = {
    pb.OUTPUT_KIND_POOLED: "pooled",
    pb.OUTPUT_KIND_TOKENS: "tokens",
    pb.OUTPUT_KIND_ATTENTION: "attention",
    pb.OUTPUT_KIND_HIDDEN: "hidden",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of one output lie. Part i holds layers x heads matrices of rows[i] x widths[i] elements."""

    dtype: pb.DataType
    offsets: tuple[int, ...]  # elements; one more than parts
    rows: tuple[int, ...]
    widths: tuple[int, ...]
    layers: tuple[int, ...] = ()  # absolute; empty where the output has none
    heads: int | None = None  # None where the output has none

    @property
    def elements(self) -> int:
        """Numbers in all."""
        return self.offsets[-1]

    def shape(self, part: int) -> tuple[int, ...]:
        """The axes of one part: layers and heads where there are any, rows, width."""
        layers = (len(self.layers),) if self.layers else ()
        heads = () if self.heads is None else (self.heads,)
        return (*layers, *heads, self.rows[part], self.widths[part])

    def locate(self, chunk: pb.Chunk) -> int:
        """The byte at which a chunk begins. Raises EngineError where its meaning, offset and size disagree."""
        if chunk.item >= len(self.rows):
            raise malformed(f"a chunk of input {chunk.item}, of {len(self.rows)}")
        rows, width, heads = self.rows[chunk.item], self.widths[chunk.item], self.heads or 1
        if not chunk.row_begin < chunk.row_end <= rows or chunk.head >= heads:
            raise malformed(
                f"a chunk of rows {chunk.row_begin} to {chunk.row_end} of head {chunk.head}, outside its output"
            )
        layers = self.layers or (0,)
        if chunk.layer not in layers:
            raise malformed(f"a chunk of layer {chunk.layer}, which was not announced")
        row = (layers.index(chunk.layer) * heads + chunk.head) * rows + chunk.row_begin
        begin = 4 * (self.offsets[chunk.item] + row * width)
        if chunk.offset_bytes != begin or len(chunk.data) != 4 * (chunk.row_end - chunk.row_begin) * width:
            raise malformed(f"a chunk of {len(chunk.data)} bytes at {chunk.offset_bytes}, which its rows contradict")
        return begin


def layouts_of(response: pb.EncodeResponse) -> dict[str, Layout]:
    """The layout of each output that a response holds or announces. Raises EngineError for one that cannot be."""
    counts = [item.token_count for item in response.items]
    layouts = {}
    if response.HasField("pooled"):
        layouts["pooled"] = pooled_layout(response.pooled, len(counts))
    for output in RAGGED_OUTPUTS:
        if response.HasField(output):
            layouts[output] = ragged_layout(output, getattr(response, output), counts)
    return layouts


def pooled_layout(tensor: pb.Tensor, count: int) -> Layout:
    """Pooled vectors are one part, whose rows are inputs."""
    shape = tuple(tensor.shape)
    if len(shape) != 2 or shape[0] != count or shape[1] < 1:
        raise malformed(f"pooled vectors of shape {list(shape)} for {count} inputs")
    return Layout(tensor.dtype, (0, shape[0] * shape[1]), (shape[0],), (shape[1],))


def ragged_layout(output: str, tensor: pb.RaggedTensor, counts: Sequence[int]) -> Layout:
    """One part for each input; heads and widths follow from its size and its number of tokens."""
    offsets, layers = tuple(tensor.offsets), tuple(tensor.layers)
    sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
    if offsets[:1] != (0,) or len(sizes) != len(counts) or bool(layers) == (output == "tokens"):
        raise malformed(f"{output}: {len(layers)} layers and {len(offsets)} offsets for {len(counts)} inputs")
    widths, common = [], set()
    for size, count in zip(sizes, counts, strict=True):
        rows = count * max(1, len(layers))
        width = count if output == "attention" else size // max(1, rows)
        heads = size // max(1, rows * width)
        if size < 1 or size != rows * width * heads:
            raise malformed(f"{output}: {size} numbers for an input of {count} tokens")
        widths.append(width)
        common.add(heads if output == "attention" else width)
    if len(common) != 1:
        raise malformed(f"{output}: the inputs differ in {'heads' if output == 'attention' else 'width'}")
    return Layout(tensor.dtype, offsets, tuple(counts), tuple(widths), layers, heads if output == "attention" else None)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer: the response, and the numbers of each output wherever they came from."""

    response: pb.EncodeResponse
    layouts: dict[str, Layout]
    data: dict[str, Floats]  # float32, flat

    def part(self, output: str, index: int) -> Floats:
        """A view: pooled [N, D] (part 0); of each input: tokens [n, D], attention [L, H, n, n], hidden [L, n, D].

        Raises:
            EngineError: the answer lacks it.
        """
        if output not in self.layouts:
            raise malformed(f"it lacks {output}, which was asked for")
        layout = self.layouts[output]
        return self.data[output][layout.offsets[index] : layout.offsets[index + 1]].reshape(layout.shape(index))


def whole_answer(response: pb.EncodeResponse, inputs: int) -> Answer:
    """The answer that one message holds, to so many inputs. Raises EngineError where it breaks the contract."""
    check_items(response, inputs)
    layouts = layouts_of(response)
    data = {
        output: from_bytes(layout.dtype, getattr(response, output).data, layout.elements)
        for output, layout in layouts.items()
    }
    return Answer(response, layouts, data)


def check_items(response: pb.EncodeResponse, inputs: int) -> None:
    """Every input has its entry."""
    if len(response.items) != inputs:
        raise malformed(f"{len(response.items)} entries for {inputs} inputs")


class Coverage:
    """Which bytes of a buffer have been written: disjoint, sorted, merged where they touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Marks begin .. end-1. Raises EngineError where one of them is marked already."""
        at = bisect.bisect_right(self._begins, begin)
        if (at > 0 and self._ends[at - 1] > begin) or (at < len(self._begins) and self._begins[at] < end):
            raise malformed(f"two chunks overlap in bytes {begin} to {end}")
        first, last = at, at
        if at > 0 and self._ends[at - 1] == begin:
            first, begin = at - 1, self._begins[at - 1]
        if at < len(self._begins) and self._begins[at] == end:
            last, end = at + 1, self._ends[at]
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def is_whole(self, size: int) -> bool:
        """Whether bytes 0 .. size-1, and no others, are marked."""
        return self._begins == [0] and self._ends == [size]


class Assembly:
    """The answer to one request of a stream, frame by frame.

    Args:
        inputs: number of inputs of the request.
        max_bytes: refuses a header that announces more; 0: no bound.
    """

    def __init__(self, inputs: int, max_bytes: int = 0) -> None:
        self._inputs = inputs
        self._max_bytes = max_bytes
        self._header: pb.EncodeResponse | None = None
        self._layouts: dict[str, Layout] = {}
        self._buffers: dict[str, Floats] = {}
        self._covered: dict[str, Coverage] = {}
        self._chunks = self._bytes = 0

    def receive(self, frame: pb.EncodeStreamResponse) -> Answer | None:
        """Takes the next frame; the complete answer with the last one, else None.

        Raises:
            EngineError: the frame does not follow from those before it.
        """
        kind = frame.WhichOneof("frame")
        if kind == "chunk" and self._header is not None:
            self._place(frame.chunk)
        elif kind == "end" and self._header is not None:
            return self._complete(self._header, frame.end)
        elif kind == "header" and self._header is None:
            self._begin(frame.header)
        elif kind == "response" and self._header is None:
            return whole_answer(frame.response, self._inputs)
        else:
            raise malformed(f"a frame of kind {kind!r} {'before' if self._header is None else 'after'} the header")
        return None

    def _begin(self, header: pb.EncodeResponse) -> None:
        check_items(header, self._inputs)
        self._layouts = layouts_of(header)
        size = sum(4 * layout.elements for layout in self._layouts.values())
        if 0 < self._max_bytes < size:
            raise malformed(f"{size} bytes announced, more than the server's own limit of {self._max_bytes}")
        for output, layout in self._layouts.items():
            from_bytes(layout.dtype, b"", 0)  # refuses a type it does not know
            self._buffers[output] = np.empty(layout.elements, "<f4")
            self._covered[output] = Coverage()
        self._header = header

    def _place(self, chunk: pb.Chunk) -> None:
        output = OUTPUT_KINDS.get(chunk.output, "")
        if output not in self._layouts:
            raise malformed(f"a chunk of output {chunk.output}, which was not announced")
        begin = self._layouts[output].locate(chunk)
        end = begin + len(chunk.data)
        self._covered[output].add(begin, end)
        self._buffers[output].view(np.uint8)[begin:end] = np.frombuffer(chunk.data, np.uint8)
        self._chunks += 1
        self._bytes += len(chunk.data)

    def _complete(self, header: pb.EncodeResponse, end: pb.StreamEnd) -> Answer:
        missing = [
            name for name, layout in self._layouts.items() if not self._covered[name].is_whole(4 * layout.elements)
        ]
        if missing or (end.chunks, end.data_bytes) != (self._chunks, self._bytes):
            raise malformed(f"chunks are missing ({', '.join(missing) or 'by the count at the end'})")
        data = {output: buffer.astype(np.float32, copy=False) for output, buffer in self._buffers.items()}
        return Answer(header, self._layouts, data)
