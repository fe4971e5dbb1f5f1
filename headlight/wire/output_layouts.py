"""Layouts of the outputs of an answer: type, shape and the size of each part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from headlight.outputs.contract import malformed, require
from headlight.outputs.layout import Layout
from headlight.outputs.output import Output, part_name
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import dtype_of


def layouts_of(response: pb.EncodeResponse) -> dict[str, Layout]:
    """Return the layout of each tensor that a response holds or announces.

    Raises BadAnswer for an impossible one.
    """
    counts, layouts = [item.token_count for item in response.items], dict[str, Layout]()
    for name, output in OUTPUTS.items():
        if output.stacked:
            for at, tensor in enumerate(getattr(response, name)):
                layouts[part_name(name, at)] = stacked_layout(name, tensor, len(counts))
            continue
        for tensor_name in output.tensor_names:
            if response.HasField(tensor_name):
                layouts[tensor_name] = ragged_layout(output, tensor_name, response, counts)
    return layouts


def data_of(response: pb.EncodeResponse) -> dict[str, bytes]:
    """Return the numbers that a response holds, by tensor, as `layouts_of` names them."""
    found = dict[str, bytes]()
    for name, output in OUTPUTS.items():
        if output.stacked:
            stacks = enumerate(getattr(response, name))
            found |= {part_name(name, at): tensor.data for at, tensor in stacks}
        else:
            held = [each for each in output.tensor_names if response.HasField(each)]
            found |= {each: getattr(response, each).data for each in held}
    return found


def stacked_layout(name: str, tensor: pb.Tensor, count: int) -> Layout:
    """Return the layout of vectors of all inputs: one part, whose rows are inputs."""
    shape = tuple(tensor.shape)
    if len(shape) != 2 or shape[0] != count or shape[1] < 1:
        raise malformed(f"{name} vectors of shape {shape} for {count} inputs")
    return Layout(dtype_of(tensor.dtype), (0, shape[0] * shape[1]), (shape,), ("item", "value"))


def ragged_layout(
    output: Output, name: str, response: pb.EncodeResponse, counts: Sequence[int]
) -> Layout:
    """Return a layout with one part for each input, after a check against the inputs and axes."""
    tensor: pb.RaggedTensor = getattr(response, name)
    axes, offsets = output.told_axes(name, response), tuple(tensor.offsets)
    layers = tuple(tensor.layers)
    shapes = tuple(tuple(extents.sizes) for extents in tensor.shapes)
    sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
    require(
        offsets[:1] == (0,) and len(sizes) == len(counts) and bool(layers) == output.layered,
        f"{name}: {len(layers)} layers and {len(offsets)} offsets for {len(counts)} inputs",
    )
    require(
        [math.prod(shape) for shape in shapes] == sizes and all(sizes),
        f"{name}: parts of {sizes[:8]} numbers in the shapes {shapes[:8]}",
    )
    for at, (shape, count) in enumerate(zip(shapes, counts, strict=True)):
        require(len(shape) == len(axes), f"{name}: the shape {shape} for the axes {axes}")
        expected = {"layer": len(layers), "pair": len(layers)}
        expected |= output.extents(response, at, count)
        wrong = [
            axis for axis, size in zip(axes, shape, strict=True) if expected.get(axis, size) != size
        ]
        require(
            not wrong,
            (
                f"{name}: the shape {shape} for an input of {count} tokens; "
                f"{', '.join(wrong)} out of place"
            ),
        )
    return Layout(dtype_of(tensor.dtype), offsets, shapes, axes, layers)
