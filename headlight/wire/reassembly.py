"""Reassembly of an answer, whole or from frames, without trust in its sizes and positions.

    header  --expect------>  one preallocated buffer per output
    chunk   --locate------>  bytes copied to their place, each place once
    end     --complete---->  Answer

A chunk has its position twice, by meaning (item, layer, head, rows) and by offset. Both must agree.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BadAnswer
from headlight.outputs.contract import malformed, numbers_of, require
from headlight.outputs.layout import Layout
from headlight.outputs.output import part_name
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import from_bytes, native

KINDS = {number: name for name, number in numbers_of("OutputKind").items()}


class Announced(NamedTuple):
    """What an answer holds, as it should by the request.

    Attributes:
        layouts: the layout of each tensor.
        places: for each output, the place of each input: its tokens that have numbers.
    """

    layouts: dict[str, Layout]
    places: dict[str, Sequence[Any]]


# Compares an answer, or its header, with the request, before memory is reserved.
Expect = Callable[[pb.EncodeResponse], Announced]


@dataclasses.dataclass(slots=True)
class Answer:
    """Complete answer: the response, and the numbers of each tensor, whole or from chunks."""

    response: pb.EncodeResponse
    announced: Announced
    data: dict[str, NDArray[Any]]  # flat, as sent

    def part(self, tensor: str, index: int) -> NDArray[Any]:
        """Return a view of the numbers of one input, with the axes of the answer.

        A stack has one part, of all inputs.
        """
        layout = self.announced.layouts[tensor]
        begin, end = layout.offsets[index : index + 2]
        return self.data[tensor][begin:end].reshape(layout.shapes[index])


def whole_answer(response: pb.EncodeResponse, expect: Expect) -> Answer:
    """Decode an answer of one message. Raises BadAnswer if it breaks the contract."""
    announced, held = expect(response), tensors_in(response)
    data = {
        name: from_bytes(layout.dtype, held[name].data, layout.offsets[-1])
        for name, layout in announced.layouts.items()
    }
    return Answer(response, announced, data)


def tensors_in(response: pb.EncodeResponse) -> dict[str, pb.Tensor | pb.RaggedTensor]:
    """Return the tensors that a response has, by name."""
    held = dict[str, pb.Tensor | pb.RaggedTensor]()
    for name, output in OUTPUTS.items():
        if output.stacked:
            held |= {part_name(name, at): each for at, each in enumerate(getattr(response, name))}
        else:
            names = filter(response.HasField, output.tensor_names)
            held |= {each: getattr(response, each) for each in names}
    return held


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
        expect: refuses a header that does not fit the request.
        max_bytes: a header that announces more is refused; 0: no bound.
        keep: whether to store chunks for the answer. If not, they are only checked. The answer then
            has no data unless it came whole.

    Attributes:
        header: empty before it arrives.
        layouts: of the outputs that it announces, one at least.
    """

    def __init__(self, expect: Expect, max_bytes: int = 0, *, keep: bool = True) -> None:
        self._expect, self._max_bytes, self._keep = expect, max_bytes, keep
        self.header = pb.EncodeResponse()
        self.layouts: dict[str, Layout] = {}
        self._announced: Announced
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
            return whole_answer(frame.response, self._expect)
        else:
            raise malformed(f"a frame of kind {kind!r} {'after' if begun else 'before'} the header")
        return None

    def _begin(self, header: pb.EncodeResponse) -> None:
        self._announced = self._expect(header)
        layouts = self._announced.layouts
        self._size = sum(layout.size_bytes for layout in layouts.values())
        require(
            not 0 < self._max_bytes < self._size,
            f"{self._size} bytes announced, more than the server's own limit of {self._max_bytes}",
        )
        if self._keep:
            self._buffers = {output: reserved(output, layout) for output, layout in layouts.items()}
        self._covered = {output: Coverage() for output in layouts}
        self.header, self.layouts = header, layouts

    def _place(self, chunk: pb.Chunk) -> None:
        output, part = KINDS.get(chunk.output, ""), chunk.item
        if output in OUTPUTS and OUTPUTS[output].stacked:
            output, part = part_name(output, part), 0
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
        counted = (end.chunks, end.data_bytes) == (self._chunks, self._size)
        require(
            counted and not missing,
            f"chunks are missing ({', '.join(missing) or 'by the count at the end'})",
        )
        return Answer(
            self.header,
            self._announced,
            {output: native(buffer) for output, buffer in self._buffers.items()},
        )
