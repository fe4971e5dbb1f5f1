"""Graph `embed`, made of a traced `attend`: the same vectors, and nothing else.

A second trace would take as long as the first.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from headlight.outputs.registry import ROWS

HEAD_MASK = "head_mask"
INPUTS = ("ids", "mask", "segments", "pool_mask")


def vectors_alone(attend: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph of the vectors: without head mask, maps, hidden states and selectors.

    Args:
        attend: traced, with its large weights outside: they are copied otherwise. Unchanged.
    """
    model = onnx.ModelProto()
    model.CopyFrom(attend)
    graph = model.graph
    _keep(graph.output, ROWS)
    _keep(graph.input, INPUTS)
    keep_needed(graph, _without_head_mask(graph.node))
    return model


def keep_needed(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Let a graph consist of those of these nodes that its outputs depend on."""
    needed = _needed(nodes, [value.name for value in graph.output])
    _keep(graph.initializer, {name for node in needed for name in node.input})
    _keep(graph.value_info, {name for node in needed for name in node.output})
    del graph.node[:]
    graph.node.extend(needed)


def _without_head_mask(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return copies of the nodes, in which each product with the head mask is its other factor."""
    masks, instead = {HEAD_MASK}, dict[str, str]()
    kept = []
    for each in nodes:
        node = onnx.NodeProto()
        node.CopyFrom(each)
        node.input[:] = [instead.get(name, name) for name in node.input]
        factors = [name for name in node.input if name not in masks]
        if len(factors) == len(node.input):
            kept.append(node)
        elif node.op_type == "Mul":
            [instead[node.output[0]]] = factors
        else:  # Gather and Unsqueeze: the mask of one layer
            masks.update(node.output)
    return kept


def _needed(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return copies of the nodes that the outputs depend on, in their order."""
    reachable, needed = set(outputs), []
    for each in reversed(list(nodes)):
        if not reachable.isdisjoint(each.output):
            node = onnx.NodeProto()
            node.CopyFrom(each)
            needed.append(node)
            reachable.update(node.input)
    return needed[::-1]


def _keep(values: object, names: Iterable[str]) -> None:
    """Remove the entries of a repeated field that have other names."""
    chosen = [value for value in values if value.name in names]  # type: ignore[attr-defined]
    del values[:]  # type: ignore[attr-defined]
    values.extend(chosen)  # type: ignore[attr-defined]
