"""The tensors of an answer, and the place of each chunk in them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from headlight.interface.attention_grid import grid
from headlight.outputs.contract import require

if TYPE_CHECKING:
    from headlight.pb import headlight_pb2 as pb

# Types of numbers on the wire, by the contract's names; bits stand 8 to a byte.
TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
    "int8": np.dtype("i1"),
    "binary": np.dtype("i1"),
    "ubinary": np.dtype("u1"),
}


class Tensor(NamedTuple):
    """One tensor of an input's answer, known before anything runs."""

    name: str
    dtype: str  # of TYPES
    shape: tuple[int, ...]
    axes: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its numbers."""
        return math.prod(self.shape) * TYPES[self.dtype].itemsize


@dataclasses.dataclass(slots=True)
class Layout:
    """Layout of one tensor of an answer: a tensor for each part, end to end."""

    type: str  # of TYPES
    offsets: tuple[int, ...]  # elements; one more than parts
    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]  # of each shape
    layers: tuple[int, ...] = ()  # absolute; empty if the output has none

    @classmethod
    def of(cls, parts: Sequence[Tensor], layers: tuple[int, ...] = ()) -> Self:
        """Return the layout of a tensor of each input."""
        shapes, first = tuple([part.shape for part in parts]), parts[0]
        offsets = tuple(itertools.accumulate(map(math.prod, shapes), initial=0))
        return cls(first.dtype, offsets, shapes, first.axes, layers)

    @classmethod
    def stacked(cls, row: Tensor, count: int) -> Self:
        """Return the layout of a tensor with such a row for each of `count` inputs: one part."""
        return cls.of([row._replace(shape=(count, *row.shape), axes=("item", *row.axes))])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers, in wire order."""
        return TYPES[self.type]

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts together."""
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
