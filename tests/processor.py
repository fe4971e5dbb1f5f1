"""Processor features that tests depend on."""

from __future__ import annotations

import functools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

SATURATES = "this processor has no VNNI: ONNX Runtime adds pairs of int8 products in 16 bits"


@functools.cache
def saturates() -> bool:
    """Return whether integer products of the largest numbers come out wrong here."""
    a = helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 64])
    b = helper.make_tensor_value_info("b", TensorProto.INT8, [64, 1])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g", [a, b], [y]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    largest = {"a": np.full((1, 64), 255, np.uint8), "b": np.full((64, 1), 127, np.int8)}
    [[[found]]] = session.run(["y"], largest)
    return bool(found != 255 * 127 * 64)
