"""Products with trained weights of an encoder's layers, by layer and role."""

from __future__ import annotations

import onnx

Groups = dict[str, list[str]]  # "layer 0: q, k, v" -> names of nodes


def layer_products(graph: onnx.GraphProto) -> Groups:
    """Return the products with weights of each layer, in their order.

    Their node names say nothing of the layer. But a layer has one softmax: products with weights
    before it make queries, keys and values. After it come the output of attention, the first
    products of the feed-forward part (gate and up), and its second.

    Args:
        graph: `embed`, or `attend`, in fp32.
    """
    weights = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    sections: list[list[str]] = [[]]  # after each softmax
    for node in _ancestors(graph, "tokens"):
        if node.op_type == "Softmax":
            sections.append([])
        elif node.op_type == "MatMul" and node.input[1] in weights:
            sections[-1].append(node.name)
    after = len(sections[-1])  # products of a layer after its softmax
    before = len(sections[1]) - after or len(sections[0])  # one layer: all of them
    groups: Groups = {}
    if extra := sections[0][: len(sections[0]) - before]:
        groups["embeddings"] = extra
    for layer in range(len(sections) - 1):
        earlier, later = sections[layer], sections[layer + 1][:after]
        groups[f"layer {layer}: q, k, v"] = earlier[len(earlier) - before :]
        groups[f"layer {layer}: attention output"] = later[:1]
        groups[f"layer {layer}: feed-forward, first"] = later[1:-1]
        groups[f"layer {layer}: feed-forward, second"] = later[-1:]
    return groups


def _ancestors(graph: onnx.GraphProto, output: str) -> list[onnx.NodeProto]:
    """Return the nodes that an output depends on, in their order."""
    names, nodes = {output}, []
    for node in reversed(list(graph.node)):
        if not names.isdisjoint(node.output):
            nodes.append(node)
            names.update(node.input)
    return nodes[::-1]
