"""Graphs with a single fault, each of which affects only one kind of output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.tampering import relist


class Fault(NamedTuple):
    """A fault of a graph.

    Attributes:
        role: "embed" or "attend".
        apply: brings it into the graph.
        found_as: what the gate at start-up calls it.
        case: of the exporter's report that finds it.
    """

    role: str
    apply: Callable[[onnx.GraphProto], None]
    found_as: str
    case: str


def scale(output: str, factor: float) -> Callable[[onnx.GraphProto], None]:
    """Multiply an output by a number; keys in their type."""

    def apply(graph: onnx.GraphProto) -> None:
        [node] = [node for node in graph.node if output in node.output]
        node.output[list(node.output).index(output)] = "right"
        number = np.array(factor, dtype=np.int64 if output.endswith("keys") else np.float32)
        graph.initializer.append(numpy_helper.from_array(number, "factor"))
        graph.node.append(helper.make_node("Mul", ["right", "factor"], [output]))

    return apply


def read_instead(
    name: str, other: str, before: Sequence[onnx.NodeProto] = ()
) -> Callable[[onnx.GraphProto], None]:
    """Make all readers of one input read another value, from nodes placed before all others."""

    def apply(graph: onnx.GraphProto) -> None:
        nodes: list[onnx.NodeProto] = [
            onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node
        ]
        for node in nodes:
            node.input[:] = [other if each == name else each for each in node.input]
        del graph.node[:]
        graph.node.extend([*before, *nodes])

    return apply


def fill_holes(graph: onnx.GraphProto) -> None:
    """Make a masked token before a visible one visible."""
    for name, value in (("axis", 1), ("one", 1)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, dtype=np.int64), name))
    nodes = [
        helper.make_node("CumSum", ["mask", "axis"], ["behind"], reverse=1),
        helper.make_node("Min", ["behind", "one"], ["filled"]),
    ]
    read_instead("mask", "filled", nodes)(graph)


def mix_up_heads(graph: onnx.GraphProto) -> None:
    """Assign the combined rows of each head to another head."""
    [node] = [node for node in graph.node if "rows_0" in node.output]
    node.output[0] = "right"
    graph.initializer.append(numpy_helper.from_array(np.array([2, 0, 1], dtype=np.int64), "others"))
    graph.node.append(helper.make_node("Gather", ["right", "others"], ["rows_0"], axis=1))


# For the bundle "prompted", which has a layer of three heads.
FAULTS = {
    "a mean of heads": Fault(
        "attend", scale("mixed_0", 2.0), "attention as head_mean", "head_mean"
    ),
    "rows": Fault(
        "attend", scale("rows_0", 0.5), "attention as pooling_weights", "pooling_weights"
    ),
    "heads of rows": Fault(
        "attend", mix_up_heads, "attention as pooling_weights", "pooling_weights"
    ),
    "scores": Fault("attend", scale("scores_0", 2.0), "attention as scores", "scores"),
    "the largest": Fault("attend", scale("top_0_entries", 0.9), "attention as top_k", "top_k"),
    "keys": Fault("attend", scale("top_0_keys", 0), "attention as top_k", "top_k"),
    "prompts": Fault(
        "embed",
        read_instead("pool_mask", "mask"),
        "pooled with a prompt left out",
        "prompt left out",
    ),
    "prompts beside attention": Fault(
        "attend",
        read_instead("pool_mask", "mask"),
        "pooled with a prompt left out",
        "prompt left out",
    ),
    "a token hidden": Fault("embed", fill_holes, "pooled with a token hidden", "token hidden"),
    "a token hidden beside attention": Fault(
        "attend", fill_holes, "pooled with a token hidden", "token hidden"
    ),
}


def change_graph(bundle: Path, role: str, apply: Callable[[onnx.GraphProto], None]) -> None:
    """Change a graph of a bundle, keep its weights, and update the manifest."""
    file = f"{role}.onnx"
    model = onnx.load(bundle / file, load_external_data=False)
    apply(model.graph)
    onnx.save(model, bundle / file)
    relist(bundle, file)
