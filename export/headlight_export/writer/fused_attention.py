"""Attention of the graph `embed` as one operator of ONNX Runtime.

`com.microsoft.MultiHeadAttention` computes softmax(scale Q K^T + mask) V of all heads
(ContribOperators.md of ONNX Runtime). On CPUs it holds no map of length x length if it has no mask.
So each layer has it twice: without a mask for batches without padding, such as a text alone, and
with one for others.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from headlight_export.writer.vectors_graph import keep_needed
from headlight_model.config import EncoderConfig
from headlight_model.masking import MASKED_SCORE

PLAIN, FUSED = "decomposed", "fused"  # forms of attention in a graph
DOMAIN = "com.microsoft"
# Operators between the input `mask` and what it adds to the scores.
MASKING = {"Where", "Unsqueeze", "Not", "Equal"}
# Values and constants added for all layers.
KEYS, UNPADDED, JOINED, AXIS = "fused_keys", "fused_unpadded", "fused_joined", "fused_axis"


@dataclasses.dataclass(frozen=True)
class _Attention:
    """Attention of one layer in plain operators: its values by name, and its last node."""

    number: int
    query: str  # [B, H, S, d]
    keys: str  # [B, H, d, S]
    values: str  # [B, H, S, d]
    scale: float
    added: str  # to the scores
    seen: str  # [B, 1, 1, 1]: 1 for a text with tokens, else 0
    end: NodeProto  # gives [B, S, H d]


def with_fused_attention(embed: onnx.ModelProto, config: EncoderConfig) -> onnx.ModelProto | None:
    """Return the graph of vectors with one operator for the attention of each layer.

    Args:
        embed: in plain operators, with its large weights outside. Unchanged.
        config: of the encoder.

    Returns:
        None if scores depend on more than padding, as with a bias of positions, a window or a
        causal mask: the operator would hold a map for that.
    """
    model = onnx.ModelProto()
    model.CopyFrom(embed)
    graph = model.graph
    plain = _PlainGraph(graph)
    layers = [plain.attention(number) for number in range(config.layers)]
    if not all(plain.is_padding(layer.added) for layer in layers):
        return None
    ends = {layer.end.output[0]: layer for layer in layers}
    nodes = [
        helper.make_node("Cast", ["mask"], [KEYS], to=TensorProto.INT32),
        helper.make_node("ReduceMin", [KEYS], ["fused_least"], keepdims=0),
        helper.make_node("Cast", ["fused_least"], [UNPADDED], to=TensorProto.BOOL),
    ]
    for node in graph.node:
        layer = ends.get(node.output[0])
        nodes.extend([node] if layer is None else plain.fused(layer, config.heads))
    for name, numbers in ((JOINED, [0, 0, -1]), (AXIS, [1])):  # 0: an unchanged extent
        graph.initializer.append(numpy_helper.from_array(np.array(numbers, dtype=np.int64), name))
    keep_needed(graph, nodes)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


class _PlainGraph:
    """A graph traced from `headlight_model.layers.attention`, by the values of its nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._constants = {each.name: each for each in graph.initializer}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._takers: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._takers.setdefault(name, []).append(node)

    def attention(self, number: int) -> _Attention:
        """Return the attention of a layer."""
        scores = f"scores_of_{number}"
        total = self._makers[scores]
        product = self._makers[total.input[0]]
        scale = 1.0
        if product.op_type == "Div":
            scale /= float(numpy_helper.to_array(self._constants[product.input[1]]))
            product = self._makers[product.input[0]]
        query, keys = product.input
        context = self._taker(self._taker(scores, "Softmax").output[0], "MatMul")
        seen = self._taker(context.output[0], "Mul")
        end = self._taker(self._taker(seen.output[0], "Transpose").output[0], "Reshape")
        return _Attention(
            number, query, keys, context.input[1], scale, total.input[1], seen.input[1], end
        )

    def is_padding(self, added: str) -> bool:
        """Return whether a value depends on nothing but the mask of tokens."""
        if added == "mask" or added in self._constants:
            return True
        node = self._makers.get(added)
        if node is None or node.op_type not in MASKING:
            return False
        return all(self.is_padding(name) for name in node.input)

    def fused(self, layer: _Attention, heads: int) -> list[NodeProto]:
        """Return the nodes that give the same as the layer's last node."""
        nodes: list[NodeProto] = []

        def node(kind: str, inputs: list[str], name: str, **attributes: object) -> str:
            nodes.append(helper.make_node(kind, inputs, [name], **attributes))
            return name

        def joined(name: str, part: str, apart: list[int], back: list[int]) -> str:
            """Return [B, S, H d] of heads apart; `apart` and `back` permute [B, S, H, d]."""
            maker = self._makers[name]
            if maker.op_type == "Transpose" and list(maker.attribute[0].ints) == apart:
                split = self._makers[maker.input[0]]
                if split.op_type == "Reshape":
                    return split.input[0]  # as it was before the split
            prefix = f"fused_{layer.number}_{part}"
            turned = node("Transpose", [name], f"{prefix}_apart", perm=back)
            return node("Reshape", [turned, JOINED], prefix)

        inputs = [
            joined(layer.query, "query", [0, 2, 1, 3], [0, 2, 1, 3]),
            joined(layer.keys, "keys", [0, 2, 3, 1], [0, 3, 1, 2]),
            joined(layer.values, "values", [0, 2, 1, 3], [0, 2, 1, 3]),
        ]
        branches = {
            f"{branch}_branch": self._branch(layer, inputs, heads, padded=branch == "else")
            for branch in ("then", "else")
        }
        node("If", [UNPADDED], layer.end.output[0], **branches)
        return nodes

    def _branch(
        self, layer: _Attention, inputs: list[str], heads: int, *, padded: bool
    ) -> onnx.GraphProto:
        """Return the graph of a batch with or without padding."""
        name = f"fused_{layer.number}_{'padded' if padded else 'unpadded'}"
        attention = helper.make_node(
            "MultiHeadAttention",
            [*inputs, "", KEYS] if padded else inputs,
            [name],
            domain=DOMAIN,
            num_heads=heads,
            scale=layer.scale,
            mask_filter_value=MASKED_SCORE,
        )
        nodes, result = [attention], name
        if padded:  # a text without tokens has zeros
            result = f"{name}_seen"
            nodes += [
                helper.make_node("Squeeze", [layer.seen, AXIS], [f"{name}_rows"]),
                helper.make_node("Mul", [name, f"{name}_rows"], [result]),
            ]
        value = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [value])

    def _taker(self, name: str, kind: str) -> NodeProto:
        """Return the one node of a kind that takes a value."""
        [node] = [node for node in self._takers[name] if node.op_type == kind]
        return node
