"""Layouts of the outputs of an answer: type, shape and the size of each part."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headlight.interface.attention_grid import grid
from headlight.pb import headlight_pb2 as pb
from headlight.wire.attention_codec import axes_of
from headlight.wire.client_codec import dtype_of, malformed, require

RAGGED_OUTPUTS = (
    *("tokens", "attention", "hidden", "attention_indices", "attention_scales"),
    "spans",
)
WITHOUT_LAYERS = ("tokens", "spans")


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
    """Return a layout with one part for each input, after a check against the inputs and axes."""
    tensor: pb.RaggedTensor = getattr(response, output)
    if output == "spans":
        places = len(response.span_places)
        require(places == len(counts), f"span_places of {places} inputs, of {len(counts)}")
    axes, offsets, layers = axes_of(output, response), tuple(tensor.offsets), tuple(tensor.layers)
    shapes = tuple(tuple(extents.sizes) for extents in tensor.shapes)
    sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
    require(
        offsets[:1] == (0,)
        and len(sizes) == len(counts)
        and bool(layers) != (output in WITHOUT_LAYERS),
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
        "span": len(response.span_places[at].token_starts) if output == "spans" else 0,
        "token": len(chosen[at].indices) if at < len(chosen) else count,
    }
