"""Selectors for the attention maps in a traced graph.

`headlight.outputs.maps.graph_selectors` describes them. They are added by hand, not traced:
their extents may be 0, which tracing takes for constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLAT, LEADING = "maps_flat", "maps_leading"
PREFIX = "select_"  # of the names of the nodes added


def add_selectors(model: onnx.ModelProto, layers: int, heads: int) -> None:
    """Replace the outputs `weights_of_l` and `scores_of_l`, float32 [B, H, S, S], by selectors.

    Args:
        model: changed in place.
        layers, heads: of the encoder.
    """
    graph = model.graph
    kept = [
        value for value in graph.output if not value.name.startswith(("weights_of_", "scores_of_"))
    ]
    del graph.output[:]
    graph.output.extend(kept)
    constants = {FLAT: [0, heads, -1], LEADING: [0, 0]}  # 0: unchanged
    for name, values in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
    for layer in range(layers):
        _add_to_layer(graph, layer, heads)
    _move_forward(graph)


def _take_factors(graph: onnx.GraphProto, weights: str) -> Sequence[str]:
    """Remove the node that gives a layer's weights, and return its inputs.

    They are the softmax of the scores; and [B, 1, S or 1, 1], 0 for queries that see no key and 1
    for others.
    """
    [maker] = [node for node in graph.node if weights in node.output]
    graph.node.remove(maker)
    return maker.input


def _add_to_layer(graph: onnx.GraphProto, layer: int, heads: int) -> None:
    scores = f"scores_of_{layer}"
    # What is selected is multiplied by `seen`: a product with all maps takes as long as a softmax.
    weights, seen = _take_factors(graph, f"weights_of_{layer}")

    def takes(name: str, kind: int, shape: Sequence[str | int]) -> str:
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def gives(name: str, shape: Sequence[str | int], kind: int = TensorProto.FLOAT) -> str:
        graph.output.append(helper.make_tensor_value_info(name, kind, ["batch", *shape]))
        return name

    def node(kind: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        graph.node.append(
            helper.make_node(kind, inputs, outputs, name=f"{PREFIX}{outputs[0]}", **attributes)
        )
        return outputs[0]

    def chosen(maps: str, name: str, output: str) -> str:
        heads = takes(f"{name}_{layer}_heads", TensorProto.INT64, [f"{name}_{layer}_count"])
        return node("Gather", [maps, heads], output, axis=1)

    square: list[str | int] = ["length", "length"]
    node(
        "Mul",
        [chosen(weights, "attention", f"attention_{layer}_softmax"), seen],
        gives(f"attention_{layer}", [f"attention_{layer}_count", *square]),
    )
    chosen(scores, "scores", gives(f"scores_{layer}", [f"scores_{layer}_count", *square]))

    # One product of [m, H] and [H, S x S]: a mean over the axis would only serve all heads.
    mix = takes(f"mix_{layer}", TensorProto.FLOAT, ["batch", f"mix_{layer}_count", heads])
    node("Reshape", [weights, FLAT], f"flat_{layer}")
    node("MatMul", [mix, f"flat_{layer}"], f"flat_mixed_{layer}")
    node("Shape", [weights], f"extents_{layer}", start=2)
    node("Concat", [LEADING, f"extents_{layer}"], f"square_{layer}", axis=0)
    node("Reshape", [f"flat_mixed_{layer}", f"square_{layer}"], f"mixed_{layer}_softmax")
    mixed = gives(f"mixed_{layer}", [f"mix_{layer}_count", *square])
    node("Mul", [f"mixed_{layer}_softmax", seen], mixed)

    combine = takes(
        f"combine_{layer}", TensorProto.FLOAT, ["batch", 1, f"combine_{layer}_count", "length"]
    )
    node("Transpose", [seen], f"seen_{layer}_rows", perm=[0, 1, 3, 2])
    node("Mul", [combine, f"seen_{layer}_rows"], f"combine_{layer}_seen")
    node(
        "MatMul",
        [f"combine_{layer}_seen", weights],
        gives(f"rows_{layer}", [heads, f"combine_{layer}_count", "length"]),
    )

    top = takes(f"top_{layer}", TensorProto.INT64, [1])
    extents: list[str | int] = [heads, "length", f"top_{layer}_count"]
    keys = gives(f"top_{layer}_keys", extents, TensorProto.INT64)
    node("TopK", [weights, top], f"top_{layer}_softmax", keys, axis=-1)
    node("Mul", [f"top_{layer}_softmax", seen], gives(f"top_{layer}_entries", extents))


def _move_forward(graph: onnx.GraphProto) -> None:
    """Put each selector after the last node that it needs.

    At the end of the graph, the maps of all layers would be held at once.
    """
    selectors: list[onnx.NodeProto] = [node for node in graph.node if node.name.startswith(PREFIX)]
    others: list[onnx.NodeProto] = [node for node in graph.node if not node.name.startswith(PREFIX)]
    made = {value.name for value in graph.input} | {value.name for value in graph.initializer}
    ordered: list[onnx.NodeProto] = []
    for node in others:
        ordered.append(node)
        made.update(node.output)
        for selector in list(selectors):  # in order: each precedes those that need it
            if made.issuperset(selector.input):
                ordered.append(selector)
                made.update(selector.output)
                selectors.remove(selector)
    if selectors:
        raise RuntimeError(
            f"{selectors[0].name} selects a result that the graph does not compute. This is a bug."
        )
    del graph.node[:]
    graph.node.extend(ordered)
