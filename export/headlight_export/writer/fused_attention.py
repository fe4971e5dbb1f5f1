"""Attention of the graph `embed` as one operator of ONNX Runtime, for CPUs.

`com.microsoft.MultiHeadAttention` computes softmax(scale Q K^T) V of all heads (ContribOperators.md
of ONNX Runtime). Without a mask its kernel for CPUs holds no map of length x length, as measured in
bench/results/long-texts.md. So the mask of padding is one more number of each key, and each query
has a 1 for it:
[q, 1] . [k, m] = q . k + m, where m is 0 for a token and MASKED_SCORE for padding. Maps would take
4 GiB for a text of 8,192 tokens and 16 heads.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from headlight_export.writer.vectors_graph import keep_needed
from headlight_model.config import EncoderConfig

PLAIN, FUSED = "decomposed", "fused"  # forms of attention in a graph
DOMAIN = "com.microsoft"
# Operators between the input `mask` and what it adds to the scores.
MASKING = {"Where", "Unsqueeze", "Not", "Equal"}
ONES, MASKS = "fused_ones", "fused_masks"  # [B, S, H, 1], of queries and keys
HEADS_APART = [0, 2, 1, 3]  # permutes [B, S, H, d] to [B, H, S, d], and back
# Constants.
JOINED, KEYS_FIRST, OF_HEADS, AXIS = (
    f"fused_{name}" for name in ("joined", "keys_first", "of_heads", "axis")
)


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
    nodes = []
    for node in graph.node:
        if layer := ends.get(node.output[0]):
            if layer is layers[0]:
                nodes.extend(_mask_columns(layer.added))
            nodes.extend(plain.fused(layer, config.heads))
        else:
            nodes.append(node)
    constants = {
        JOINED: [0, 0, -1],  # 0: unchanged
        KEYS_FIRST: [0, -1, 1, 1],
        OF_HEADS: [1, 1, config.heads, 1],
        AXIS: [1],
    }
    for name, numbers in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.array(numbers, dtype=np.int64), name))
    keep_needed(graph, nodes)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def _mask_columns(added: str) -> list[NodeProto]:
    """Return the nodes that make ONES and MASKS of what is added to the scores: [B, 1, 1, S]."""
    one = numpy_helper.from_array(np.ones(1, dtype=np.float32))
    return [
        helper.make_node("Reshape", [added, KEYS_FIRST], ["fused_mask"]),
        helper.make_node("Expand", ["fused_mask", OF_HEADS], [MASKS]),
        helper.make_node("Shape", [MASKS], ["fused_extents"]),
        helper.make_node("ConstantOfShape", ["fused_extents"], [ONES], value=one),
    ]


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
        prefix = f"fused_{layer.number}"

        def node(kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
            nodes.append(helper.make_node(kind, inputs, [name], **attributes))
            return name

        def rows(name: str, part: str, apart: list[int], back: list[int]) -> str:
            """Return [B, S, H, d] of heads; `apart` permutes it to their order, `back` from it."""
            maker = self._makers[name]
            if maker.op_type == "Transpose" and list(maker.attribute[0].ints) == apart:
                return maker.input[0]  # as it was before
            return node("Transpose", [name], f"{prefix}_{part}_rows", perm=back)

        query = rows(layer.query, "query", HEADS_APART, HEADS_APART)
        keys = rows(layer.keys, "keys", [0, 2, 3, 1], [0, 3, 1, 2])
        values = rows(layer.values, "values", HEADS_APART, HEADS_APART)
        query = node("Concat", [query, ONES], f"{prefix}_query_1", axis=-1)
        keys = node("Concat", [keys, MASKS], f"{prefix}_keys_m", axis=-1)
        inputs = [
            node("Reshape", [heads_apart, JOINED], f"{prefix}_{part}")
            for part, heads_apart in (("query", query), ("keys", keys), ("values", values))
        ]
        context = node(
            "MultiHeadAttention",
            inputs,
            f"{prefix}_context",
            domain=DOMAIN,
            num_heads=heads,
            scale=layer.scale,
        )
        # A text without tokens has zeros.
        seen = node("Squeeze", [layer.seen, AXIS], f"{prefix}_seen")
        node("Mul", [context, seen], layer.end.output[0])
        return nodes

    def _taker(self, name: str, kind: str) -> NodeProto:
        """Return the one node of a kind that takes a value."""
        [node] = [node for node in self._takers[name] if node.op_type == kind]
        return node
