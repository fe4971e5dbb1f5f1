"""Reassembly of an answer, whole or from frames, without trust in its sizes and positions.

    header  --layouts_of-->  one preallocated buffer per output
    chunk   --locate------>  bytes copied to their place, each place once
    end     --complete---->  Answer

A chunk has its position twice, by meaning (item, layer, head, rows) and by offset. Both must agree.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BadAnswer
from headlight.outputs.contract import malformed, numbers_of, require
from headlight.outputs.layout import Layout
from headlight.outputs.output import part_name
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import from_bytes, native
from headlight.wire.output_layouts import data_of, layouts_of

KINDS = {number: name for name, number in numbers_of("OutputKind").items()}
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

        Of a stack: [N, D] of all inputs, in the type at this index. Of other tensors: those of the
        input at this index, with the axes of the answer.

        Raises:
            BadAnswer: the answer lacks it.
        """
        output, index = placed(output, index)
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
    held = data_of(response)
    data = {
        name: from_bytes(layout.dtype, held[name], layout.offsets[-1])
        for name, layout in layouts.items()
    }
    return Answer(response, layouts, data)


def placed(name: str, index: int) -> tuple[str, int]:
    """Return the layout that holds a tensor's part at an index, and its place there."""
    output = OUTPUTS.get(name)
    return (part_name(name, index), 0) if output is not None and output.stacked else (name, index)


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
        max_bytes: a header that announces more is refused; 0: no bound.
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
            BadAnswer: the frame does not continue those before it.
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
        output, part = placed(KINDS.get(chunk.output, ""), chunk.item)
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
