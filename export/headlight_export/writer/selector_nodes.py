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


def _add_to_layer(graph: onnx.GraphProto, layer: int, heads: int) -> None:
    weights, scores = f"weights_of_{layer}", f"scores_of_{layer}"

    def takes(name: str, kind: int, shape: Sequence[str | int]) -> str:
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def gives(name: str, shape: Sequence[str | int], kind: int = TensorProto.FLOAT) -> str:
        graph.output.append(helper.make_tensor_value_info(name, kind, ["batch", *shape]))
        return name

    def node(kind: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> None:
        graph.node.append(
            helper.make_node(kind, inputs, outputs, name=f"{PREFIX}{outputs[0]}", **attributes)
        )

    for name, maps in (("attention", weights), ("scores", scores)):
        chosen = takes(f"{name}_{layer}_heads", TensorProto.INT64, [f"{name}_{layer}_count"])
        given = gives(f"{name}_{layer}", [f"{name}_{layer}_count", "length", "length"])
        node("Gather", [maps, chosen], given, axis=1)

    # One product of [m, H] and [H, S x S]: a mean over the axis would only serve all heads.
    mix = takes(f"mix_{layer}", TensorProto.FLOAT, ["batch", f"mix_{layer}_count", heads])
    node("Reshape", [weights, FLAT], f"flat_{layer}")
    node("MatMul", [mix, f"flat_{layer}"], f"flat_mixed_{layer}")
    node("Shape", [weights], f"extents_{layer}", start=2)
    node("Concat", [LEADING, f"extents_{layer}"], f"square_{layer}", axis=0)
    mixed = gives(f"mixed_{layer}", [f"mix_{layer}_count", "length", "length"])
    node("Reshape", [f"flat_mixed_{layer}", f"square_{layer}"], mixed)

    combine = takes(
        f"combine_{layer}", TensorProto.FLOAT, ["batch", 1, f"combine_{layer}_count", "length"]
    )
    node(
        "MatMul",
        [combine, weights],
        gives(f"rows_{layer}", [heads, f"combine_{layer}_count", "length"]),
    )

    top = takes(f"top_{layer}", TensorProto.INT64, [1])
    extents: list[str | int] = [heads, "length", f"top_{layer}_count"]
    entries = gives(f"top_{layer}_entries", extents)
    node(
        "TopK",
        [weights, top],
        entries,
        gives(f"top_{layer}_keys", extents, TensorProto.INT64),
        axis=-1,
    )


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
