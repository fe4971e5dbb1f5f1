"""The place of each input's numbers in a tensor of an answer, and of each chunk in them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from headlight.interface.attention_grid import grid
from headlight.outputs.contract import require

if TYPE_CHECKING:
    from headlight.pb import headlight_pb2 as pb


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
