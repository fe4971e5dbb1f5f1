"""Attention of the graph `embed` as one operator of ONNX Runtime.

`com.microsoft.MultiHeadAttention` computes softmax(scale Q K^T) V of all heads (ContribOperators.md
of ONNX Runtime). Without a mask its kernel for CPUs holds no map of length x length, as measured in
bench/results/long-texts.md. So the mask is one more number of each key, and each query has a factor
for it:
[q, f] . [k, m] = q . k + f m, where m is 0 for a token that is seen, and f m is far below all
scores for others. Maps would take 4 GiB for a text of 8,192 tokens and 16 heads.

On CUDA this was not run yet. From ONNX Runtime's sources (contrib_ops/cuda/bert): without a mask,
in float32, float16 or bfloat16, the kernel is one without maps if heads have a multiple of 8
numbers. The operator's own lengths of keys do not suit: they hide no token in the midst of a text,
as occlusion does, and before compute capability 9.0, or in float32, their kernel holds maps.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from headlight_export.writer.vectors_graph import keep_needed
from headlight_model.config import EncoderConfig

PLAIN, FUSED = "decomposed", "fused"  # forms of attention in a graph
DOMAIN = "com.microsoft"
# Operators between the input `mask` and what it adds to the scores.
MASKING = {"Where", "Unsqueeze", "Not", "Equal"}
FACTORS, MASKS = "fused_factors", "fused_masks"  # [B, S, H, columns], of queries and keys
# The product is below all scores; both are in the range of float16.
FACTOR, HIDDEN = 32768.0, -32768.0
HEADS_APART = [0, 2, 1, 3]  # permutes [B, S, H, d] to [B, H, S, d], and back
# Constants.
JOINED, KEYS_FIRST, OF_HEADS, AXIS, LEAST, FIRST = (
    f"fused_{name}" for name in ("joined", "keys_first", "of_heads", "axis", "least", "first")
)


@dataclasses.dataclass(frozen=True)
class Form:
    """How the operator takes queries, keys and values.

    Attributes:
        columns: how many numbers each query and key has besides its own: that of the mask, and
            zeros.
        kind: their type, and that of the context.
    """

    columns: int = 1
    kind: int = TensorProto.FLOAT


# By provider and precision. Others have plain operators.
FORMS = {
    ("cpu", "fp32"): Form(),
    ("cuda", "fp32"): Form(8),
    ("cuda", "fp16"): Form(8, TensorProto.FLOAT16),
    ("cuda", "bf16"): Form(8, TensorProto.BFLOAT16),
}


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


def with_fused_attention(
    embed: onnx.ModelProto, config: EncoderConfig, form: Form
) -> onnx.ModelProto | None:
    """Return the graph of vectors with one operator for the attention of each layer.

    Args:
        embed: in plain operators, with its large weights outside. Unchanged.
        config: of the encoder.
        form: of the operator.

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
                nodes.extend(_mask_columns(layer.added, form))
            nodes.extend(plain.fused(layer, config.heads, form))
        else:
            nodes.append(node)
    constants = {
        JOINED: [0, 0, -1],  # 0: unchanged
        KEYS_FIRST: [0, -1, 1, 1],
        OF_HEADS: [1, 1, config.heads, 1],
        AXIS: [1],
    }
    arrays = {name: np.array(numbers, dtype=np.int64) for name, numbers in constants.items()}
    arrays[LEAST] = np.array(HIDDEN, dtype=np.float32)
    arrays[FIRST] = np.eye(1, form.columns, dtype=np.float32)[0]
    for name, array in arrays.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    keep_needed(graph, nodes)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def _mask_columns(added: str, form: Form) -> list[NodeProto]:
    """Return the nodes that make FACTORS and MASKS of what is added to the scores: [B, 1, 1, S]."""
    factor = numpy_helper.from_array(np.array([FACTOR], dtype=np.float32))
    wide, kept = f"{MASKS}_wide", f"{FACTORS}_wide"
    return [
        helper.make_node("Max", [added, LEAST], ["fused_bounded"]),
        helper.make_node("Reshape", ["fused_bounded", KEYS_FIRST], ["fused_mask"]),
        helper.make_node("Mul", ["fused_mask", FIRST], ["fused_columns"]),
        helper.make_node("Expand", ["fused_columns", OF_HEADS], [wide]),
        helper.make_node("Shape", [wide], ["fused_extents"]),
        helper.make_node("ConstantOfShape", ["fused_extents"], [kept], value=factor),
        helper.make_node("Cast", [wide], [MASKS], to=form.kind),
        helper.make_node("Cast", [kept], [FACTORS], to=form.kind),
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

    def fused(self, layer: _Attention, heads: int, form: Form) -> list[NodeProto]:
        """Return the nodes that give the same as the layer's last node."""
        nodes: list[NodeProto] = []
        prefix = f"fused_{layer.number}"

        def node(kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
            nodes.append(helper.make_node(kind, inputs, [name], **attributes))
            return name

        def typed(name: str, part: str) -> str:
            """Return the value in the operator's type."""
            if form.kind == TensorProto.FLOAT:
                return name
            return node("Cast", [name], f"{prefix}_{part}_typed", to=form.kind)

        def rows(name: str, part: str, apart: list[int], back: list[int]) -> str:
            """Return [B, S, H, d] of heads; `apart` permutes it to their order, `back` from it."""
            maker = self._makers[name]
            if maker.op_type == "Transpose" and list(maker.attribute[0].ints) == apart:
                name = maker.input[0]  # as it was before
            else:
                name = node("Transpose", [name], f"{prefix}_{part}_rows", perm=back)
            return typed(name, part)

        query = rows(layer.query, "query", HEADS_APART, HEADS_APART)
        keys = rows(layer.keys, "keys", [0, 2, 3, 1], [0, 3, 1, 2])
        values = rows(layer.values, "values", HEADS_APART, HEADS_APART)
        query = node("Concat", [query, FACTORS], f"{prefix}_query_f", axis=-1)
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
        seen = typed(node("Squeeze", [layer.seen, AXIS], f"{prefix}_seen"), "seen")
        end = layer.end.output[0]
        if form.kind == TensorProto.FLOAT:
            node("Mul", [context, seen], end)
        else:
            node("Cast", [node("Mul", [context, seen], f"{prefix}_end")], end, to=TensorProto.FLOAT)
        return nodes

    def _taker(self, name: str, kind: str) -> NodeProto:
        """Return the one node of a kind that takes a value."""
        [node] = [node for node in self._takers[name] if node.op_type == kind]
        return node
