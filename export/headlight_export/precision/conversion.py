"""Conversion of a traced graph to fewer bits: bfloat16, float16 or int8 weights.

It rewrites products with constant weights, and the tables that ids index. All else stays as traced:
norms, softmax, the products of attention, the residual stream, tables of angles, pooling and the
steps after it. (Scores of a sharp head are beyond float16's range.) Inputs and outputs keep their
types, so the engine needs no change.

- bf16: weights are rounded to bfloat16, stored so, and cast to float32 for use: half the file's
  bytes.
- fp16: float16 products of float16 inputs, cast back. A provider without a kernel for them, as that
  for CPUs, casts to float32 and back by itself.
- int8: weights in int8 with a scale for each column, inputs in uint8 with a scale for each row.
  A row is a token, so a text's vector does not depend on its batch. (One scale for the whole input,
  as in ONNX's DynamicQuantizeLinear, is less exact. It moves pooled vectors by up to 2e-3 with the
  batch.) Products add up in int32, without rounding. Tables are float16: in int8 they would change
  three times as many nearest neighbours as all products do (measured on `docs-rope`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from headlight_export.writer.vectors_graph import keep_needed

PRECISIONS = ("bf16", "fp16", "int8")  # beside fp32, the precision of a traced graph
STORED = {
    "bf16": TensorProto.BFLOAT16,
    "fp16": TensorProto.FLOAT16,
    "int8": TensorProto.FLOAT16,
}  # tables, and layers after pooling
TORCH: dict[int, torch.dtype] = {
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.FLOAT16: torch.float16,
}
STEPS = 127  # of int8 on either side of 0
MIDDLE = 128  # the uint8 value of 0
SMALLEST_SCALE = 1e-30  # for a row of zeros
# Operators that `without_casts` moves, which CUDA has in every type (OperatorKernels.md of ONNX
# Runtime). Inputs beyond their operands are sizes.
ANY_TYPE = {"Add", "Mul", "Split", "Reshape", "Transpose", "Gelu", "Sigmoid", "Relu"}
# The export leaves half of float16's range behind a product: a bias of this size fits.
LARGEST_ADDED = 1 << 10
TWIN = ".twin"  # of a value in the narrow type


def convert(
    model: onnx.ModelProto,
    precision: str,
    parameters: Collection[str],
    kept: Collection[str] = (),
    *,
    narrow: bool = False,
) -> None:
    """Rewrite a traced graph.

    Args:
        model: from `headlight_export.writer.graphs.trace`; its weights inside, float32. Changed in
            place.
        precision: one of PRECISIONS.
        parameters: names of trained tensors. Other tables (angles) are computed, must be exact, and
            stay unchanged.
        kept: names of products that stay in float32.
        narrow: multiply in the type of the weights, also in bf16, which CPUs lack kernels for.

    Raises:
        ValueError: a weight is beyond the range of its new type.
    """
    rewriter = _Rewriter(model.graph, precision, parameters, narrow=narrow)
    nodes: list[onnx.NodeProto] = list(model.graph.node)
    for node in nodes:
        if node.name in kept:
            rewriter.nodes.append(node)
        else:
            rewriter.take(node)
    rewriter.finish()


def without_casts(model: onnx.ModelProto, kind: int) -> None:
    """Compute in a narrow type what lies between a cast from it and a cast to it, in place.

    Such values are the same or are rounded once more: a bias, an activation. What is also used in
    float32, as in the residual stream, stays so. On a GPU these steps cost as much as the bytes
    that they move.
    """
    graph = model.graph
    constants = {
        tensor.name: _narrowed(values, kind)
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.FLOAT
        and len(tensor.dims) < 2
        and np.abs(values := numpy_helper.to_array(tensor)).max(initial=0) <= LARGEST_ADDED
    }
    typed = {tensor.name for tensor in graph.initializer if tensor.data_type == kind}
    narrow = dict[str, str]()  # the narrow value of a float32 value
    same = dict[str, str]()  # of the output of a cast that is left out
    added = set[str]()  # constants that are needed in the narrow type, too
    nodes = []
    for each in graph.node:
        node = onnx.NodeProto()
        node.CopyFrom(each)
        node.input[:] = [same.get(name, name) for name in node.input]
        wide = node.input[0] if node.input else ""
        if node.op_type == "Cast" and node.attribute[0].i == kind and wide in narrow:
            same[node.output[0]] = narrow[wide]
            continue
        nodes.append(node)
        if node.op_type == "Cast":
            if node.attribute[0].i == kind:
                typed.add(node.output[0])
            elif node.attribute[0].i == TensorProto.FLOAT and wide in typed:
                narrow[node.output[0]] = wide
        elif node.op_type != "Shape" and not typed.isdisjoint(node.input):
            typed.update(node.output)
        elif node.op_type in ANY_TYPE:
            twin = _narrow_twin(node, constants, narrow)
            if twin is not None:
                nodes.append(twin)
                typed.update(twin.output)
                added.update(name for name in node.input if f"{name}{TWIN}" in twin.input)
                narrow |= dict(zip(node.output, twin.output, strict=True))
    for name in sorted(added & constants.keys()):
        graph.initializer.append(_tensor(f"{name}{TWIN}", kind, constants[name]))
    keep_needed(graph, nodes)


def _narrow_twin(
    node: onnx.NodeProto,
    constants: Collection[str],
    narrow: Mapping[str, str],
) -> onnx.NodeProto | None:
    """Return the same in the narrow type; None if it reads a float32 value that is no constant."""
    inputs = []
    for name in node.input[: 2 if node.op_type in ("Add", "Mul") else 1]:
        if name in narrow:
            inputs.append(narrow[name])
        elif name in constants:
            inputs.append(f"{name}{TWIN}")
        else:
            return None
    twin = onnx.NodeProto()
    twin.CopyFrom(node)
    twin.name = ""
    twin.input[: len(inputs)] = inputs
    twin.output[:] = [f"{name}{TWIN}" for name in node.output]
    return twin


def _narrowed(values: NDArray[Any], kind: int) -> torch.Tensor:
    return torch.tensor(values).to(TORCH[kind])


def _tensor(name: str, kind: int, values: torch.Tensor) -> onnx.TensorProto:
    """Return a constant of narrow numbers."""
    raw = values.view(torch.int16).numpy().tobytes()
    return helper.make_tensor(name, kind, values.shape, raw, raw=True)


class _Rewriter:
    """A rewriter that reads a graph's nodes in order and writes new ones in their place."""

    def __init__(
        self, graph: onnx.GraphProto, precision: str, parameters: Collection[str], *, narrow: bool
    ) -> None:
        self.graph = graph
        self.stored = STORED[precision]
        self.product = {
            "bf16": self._narrow_product if narrow else self._widened_product,
            "fp16": self._narrow_product,
            "int8": self._integer_product,
        }[precision]
        self.parameters = parameters
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.nodes: list[onnx.NodeProto] = []
        self.made: set[str] = set()  # names added: an input of several products is converted once

    def take(self, node: onnx.NodeProto) -> None:
        """Add a node, or its equivalent in fewer bits."""
        names = list(node.input)
        if node.op_type == "MatMul" and self._is_weight(names[1]):
            self.product(names[0], names[1], node.output[0])
        elif node.op_type == "Gather" and names[0] in self.parameters and self._is_weight(names[0]):
            table, rows = self._store(names[0]), f"{node.output[0]}.rows"
            self._add("Gather", [table, names[1]], rows)  # rows are cast, not the table
            self._add("Cast", [rows], node.output[0], to=TensorProto.FLOAT)
        elif node.op_type == "Gemm" and self._is_weight(names[1]):  # after pooling: in float32
            names[1] = self._widened(names[1])
            node.input[:] = names
            self.nodes.append(node)
        else:
            self.nodes.append(node)

    def finish(self) -> None:
        """Write the nodes into the graph, without unused weights."""
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input} | {
            value.name for value in self.graph.output
        }
        kept: list[onnx.TensorProto] = [
            tensor for tensor in self.graph.initializer if tensor.name in used
        ]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        del self.graph.value_info[:]  # its values may be gone or have other types

    def _is_weight(self, name: str) -> bool:
        tensor = self.constants.get(name)
        return (
            tensor is not None and tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
        )

    def _widened_product(self, x: str, weight: str, y: str) -> None:
        self._add("MatMul", [x, self._widened(weight)], y)

    def _narrow_product(self, x: str, weight: str, y: str) -> None:
        self._add("Cast", [x], f"{x}.narrow", to=self.stored)
        self._add("MatMul", [f"{x}.narrow", self._store(weight)], f"{y}.narrow")
        self._add("Cast", [f"{y}.narrow"], y, to=TensorProto.FLOAT)

    def _integer_product(self, x: str, weight: str, y: str) -> None:
        """Add y = round(x / s) round(weight / t) s t, for x [..., K] and weight [K, N].

        s [..., 1] and t [N] are the largest magnitude of each row or column, over 127.
        """
        values = self._values(weight)
        scales = np.maximum(np.abs(values).max(axis=0), np.float32(SMALLEST_SCALE)) / np.float32(
            STEPS
        )
        integers = self._constant(f"{weight}.int8", np.rint(values / scales).astype(np.int8))
        columns = self._constant(f"{weight}.scales", scales)
        middle = self._constant("quantised.middle", np.array(MIDDLE, dtype=np.uint8))
        self._quantise_rows(x, middle)
        self._add("MatMulInteger", [f"{x}.uint8", integers, middle], f"{y}.int32")
        self._add("Cast", [f"{y}.int32"], f"{y}.sums", to=TensorProto.FLOAT)
        self._add("Mul", [f"{y}.sums", f"{x}.scales"], f"{y}.rows")
        self._add("Mul", [f"{y}.rows", columns], y)

    def _quantise_rows(self, x: str, middle: str) -> None:
        """Convert x [..., K] to x.uint8 [..., K] and x.scales [..., 1]."""
        step = self._constant("quantised.step", np.array(1 / STEPS, dtype=np.float32))
        least = self._constant("quantised.least", np.array(SMALLEST_SCALE, dtype=np.float32))
        one = self._constant("quantised.one", np.array(1, dtype=np.float32))
        axis = self._constant("quantised.axis", np.array([-1], dtype=np.int64))
        self._add("Abs", [x], f"{x}.magnitudes")
        self._add("ReduceMax", [f"{x}.magnitudes", axis], f"{x}.largest", keepdims=1)
        self._add("Mul", [f"{x}.largest", step], f"{x}.steps")
        self._add("Max", [f"{x}.steps", least], f"{x}.scales")
        self._add("Div", [x, f"{x}.scales"], f"{x}.scaled")
        # With the scale 1: QuantizeLinear's own row scales take longer than the division.
        self._add("QuantizeLinear", [f"{x}.scaled", one, middle], f"{x}.uint8")

    def _widened(self, weight: str) -> str:
        """Return the name of a stored weight cast to float32."""
        self._add("Cast", [self._store(weight)], f"{weight}.wide", to=TensorProto.FLOAT)
        return f"{weight}.wide"

    def _store(self, weight: str) -> str:
        """Return the name of a weight in its stored type."""
        name = f"{weight}.stored"
        if name not in self.made:
            narrow = _narrowed(self._values(weight), self.stored)
            if not narrow.isfinite().all():
                raise ValueError(
                    f"{weight} holds a value outside the range of {narrow.dtype}".replace(
                        "torch.", ""
                    )
                )
            self.made.add(name)
            self.graph.initializer.append(_tensor(name, self.stored, narrow))
        return name

    def _values(self, weight: str) -> NDArray[np.float32]:
        return numpy_helper.to_array(self.constants[weight]).astype(np.float32)

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self.made:
            self.made.add(name)
            self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Add a node, unless its output exists already."""
        if output not in self.made:
            self.made.add(output)
            self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
