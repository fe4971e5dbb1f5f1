"""A traced graph in fewer bits: weights in bfloat16, float16 or int8, what is sensitive in float32.

Rewritten are products with constant weights, and the tables that ids look rows up in. Everything else stays as it was traced:
norms, softmax, the products of attention (scores of a sharp head are beyond float16's range), the residual stream, tables of angles,
pooling and what follows it. Inputs and outputs keep their types, so the engine does not know.

- bf16: weights rounded to bfloat16 and stored so, cast to float32 where they are used: half the bytes of the file.
- fp16: float16 products of float16 inputs, cast back. A provider without a kernel for them, as that for CPUs, casts to float32 and
  back by itself.
- int8: weights in int8 with a scale for each column, inputs in uint8 with a scale for each row, which is a token: then what a text is
  encoded with does not change its vector. (A scale for the whole input, as ONNX's DynamicQuantizeLinear has it, moves pooled vectors
  by up to 2e-3 with the batch, and is less exact.) Products add up in int32, without rounding. Tables are float16: in int8 they would
  cost three times as many neighbours as all products do (measured on `docs-rope`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

PRECISIONS = ("bf16", "fp16", "int8")  # beside fp32, which is what a graph is traced in
STORED = {
    "bf16": TensorProto.BFLOAT16,
    "fp16": TensorProto.FLOAT16,
    "int8": TensorProto.FLOAT16,
}  # tables, and what is behind pooling
TORCH = {TensorProto.BFLOAT16: torch.bfloat16, TensorProto.FLOAT16: torch.float16}
STEPS = 127  # of int8 on either side of 0
MIDDLE = 128  # what stands for 0 in uint8
SMALLEST_SCALE = 1e-30  # a row of zeros has a scale, too


def convert(model: onnx.ModelProto, precision: str, parameters: Collection[str]) -> None:
    """Rewrite a traced graph.

    Args:
        model: `headlight_export.writer.graphs.trace` gave it; its weights inside, float32. Changed in place.
        precision: one of PRECISIONS.
        parameters: names of what was trained. Other tables (angles) are computed, must be exact, and stay as they are.

    Raises:
        ValueError: a weight is beyond the range of the type that it would be stored in.
    """
    rewriter = _Rewriter(model.graph, precision, parameters)
    nodes: list[onnx.NodeProto] = list(model.graph.node)
    for node in nodes:
        rewriter.take(node)
    rewriter.finish()


class _Rewriter:
    """Reads the nodes of a graph in their order and writes the new ones, each in the place of the old."""

    def __init__(self, graph: onnx.GraphProto, precision: str, parameters: Collection[str]) -> None:
        self.graph = graph
        self.stored = STORED[precision]
        self.product = {"bf16": self._widened_product, "fp16": self._half_product, "int8": self._integer_product}[
            precision
        ]
        self.parameters = parameters
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.nodes: list[onnx.NodeProto] = []
        self.made: set[str] = set()  # names of what was added: an input of several products is converted once

    def take(self, node: onnx.NodeProto) -> None:
        """Add a node, or what does the same in fewer bits."""
        names = list(node.input)
        if node.op_type == "MatMul" and self._is_weight(names[1]):
            self.product(names[0], names[1], node.output[0])
        elif node.op_type == "Gather" and names[0] in self.parameters and self._is_weight(names[0]):
            table, rows = self._store(names[0]), f"{node.output[0]}.rows"
            self._add("Gather", [table, names[1]], rows)  # rows are cast, not the table
            self._add("Cast", [rows], node.output[0], to=TensorProto.FLOAT)
        elif node.op_type == "Gemm" and self._is_weight(names[1]):  # behind pooling: few products, in full precision
            names[1] = self._widened(names[1])
            node.input[:] = names
            self.nodes.append(node)
        else:
            self.nodes.append(node)

    def finish(self) -> None:
        """Write the nodes into the graph, without the weights that nothing uses any more."""
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input} | {value.name for value in self.graph.output}
        kept: list[onnx.TensorProto] = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        del self.graph.value_info[:]  # of values that may be gone, in types that may be others

    def _is_weight(self, name: str) -> bool:
        tensor = self.constants.get(name)
        return tensor is not None and tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2

    def _widened_product(self, x: str, weight: str, y: str) -> None:
        self._add("MatMul", [x, self._widened(weight)], y)

    def _half_product(self, x: str, weight: str, y: str) -> None:
        self._add("Cast", [x], f"{x}.half", to=TensorProto.FLOAT16)
        self._add("MatMul", [f"{x}.half", self._store(weight)], f"{y}.half")
        self._add("Cast", [f"{y}.half"], y, to=TensorProto.FLOAT)

    def _integer_product(self, x: str, weight: str, y: str) -> None:
        """x [..., K] and weight [K, N] -> y = round(x / s) round(weight / t) s t, s [..., 1] and t [N] the largest of each over 127."""
        values = self._values(weight)
        scales = np.maximum(np.abs(values).max(axis=0), np.float32(SMALLEST_SCALE)) / np.float32(STEPS)
        integers = self._constant(f"{weight}.int8", np.rint(values / scales).astype(np.int8))
        columns = self._constant(f"{weight}.scales", scales)
        middle = self._constant("quantised.middle", np.array(MIDDLE, dtype=np.uint8))
        self._quantise_rows(x, middle)
        self._add("MatMulInteger", [f"{x}.uint8", integers, middle], f"{y}.int32")
        self._add("Cast", [f"{y}.int32"], f"{y}.sums", to=TensorProto.FLOAT)
        self._add("Mul", [f"{y}.sums", f"{x}.scales"], f"{y}.rows")
        self._add("Mul", [f"{y}.rows", columns], y)

    def _quantise_rows(self, x: str, middle: str) -> None:
        """x [..., K] -> x.uint8 [..., K] and x.scales [..., 1]."""
        step = self._constant("quantised.step", np.array(1 / STEPS, dtype=np.float32))
        least = self._constant("quantised.least", np.array(SMALLEST_SCALE, dtype=np.float32))
        one = self._constant("quantised.one", np.array(1, dtype=np.float32))
        axis = self._constant("quantised.axis", np.array([-1], dtype=np.int64))
        self._add("Abs", [x], f"{x}.magnitudes")
        self._add("ReduceMax", [f"{x}.magnitudes", axis], f"{x}.largest", keepdims=1)
        self._add("Mul", [f"{x}.largest", step], f"{x}.steps")
        self._add("Max", [f"{x}.steps", least], f"{x}.scales")
        self._add("Div", [x, f"{x}.scales"], f"{x}.scaled")
        # Of one scale for all, 1: QuantizeLinear's own scales of rows take longer than the division.
        self._add("QuantizeLinear", [f"{x}.scaled", one, middle], f"{x}.uint8")

    def _widened(self, weight: str) -> str:
        """The name of a weight that is stored in fewer bits, as float32."""
        self._add("Cast", [self._store(weight)], f"{weight}.wide", to=TensorProto.FLOAT)
        return f"{weight}.wide"

    def _store(self, weight: str) -> str:
        """The name of a weight in the type that weights are stored in."""
        name = f"{weight}.stored"
        if name not in self.made:
            narrow = torch.from_numpy(self._values(weight)).to(TORCH[self.stored])
            if not narrow.isfinite().all():
                raise ValueError(f"{weight} holds a number that {narrow.dtype} has not".replace("torch.", ""))
            raw = narrow.view(torch.int16).numpy().tobytes()
            self.made.add(name)
            self.graph.initializer.append(helper.make_tensor(name, self.stored, narrow.shape, raw, raw=True))
        return name

    def _values(self, weight: str) -> NDArray[np.float32]:
        return numpy_helper.to_array(self.constants[weight]).astype(np.float32)

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self.made:
            self.made.add(name)
            self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """A node, unless what it gives is there already."""
        if output not in self.made:
            self.made.add(output)
            self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
