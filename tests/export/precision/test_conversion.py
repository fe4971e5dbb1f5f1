"""Graphs in reduced precision, product by product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers.provider_choice import open_session
from headlight.runtime.providers.worker_layout import Workers
from headlight_export.precision.conversion import PRECISIONS, convert
from headlight_export.precision.variant_options import check_family, known_variants
from tests.processor import SATURATES, saturates


def test_a_weight_beyond_the_float16_range_is_refused() -> None:
    model = product_of(np.full((4, 3), 1e6, dtype=np.float32))
    with pytest.raises(ValueError, match=r"w holds a value outside the range of float16"):
        convert(model, "fp16", ())
    convert(product_of(np.full((4, 3), 1e6, dtype=np.float32)), "bf16", ())


def test_known_precisions_and_providers_are_read_and_others_refused() -> None:
    assert known_variants(["int8", "fp32", "fp16", "int8"], []) == [
        ("cpu", "int8"),
        ("cpu", "fp16"),
    ]
    assert known_variants([], ["openvino", "cpu"])[0] == ("openvino", "fp32")
    with pytest.raises(
        ValueError, match="--precision int4: choose one of bf16, fp16, int8; fp32 is always written"
    ):
        known_variants(["int4"], [])
    with pytest.raises(
        ValueError,
        match="--provider tpu: choose one of cpu, openvino, cuda; cpu is always measured",
    ):
        known_variants([], ["tpu"])


def test_families_that_float16_cannot_hold_are_refused_before_tracing() -> None:
    for family in ("t5", "gemma3_text"):
        with pytest.raises(ValueError, match=f"activations of {family} leave .* --precision bf16"):
            check_family(["bf16", "fp16"], family)
        check_family(["bf16"], family)
    check_family(["fp16"], "bert")


def test_a_missing_texts_file_is_reported_before_tracing(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match="texts is not a file; --texts takes a file with one text a line"
    ):
        known_variants(["int8"], [], tmp_path / "texts")
    with pytest.raises(ValueError, match="add --precision, or leave --texts out"):
        known_variants(["fp32"], [], tmp_path)


def product_of(weight: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Return the graph y = x w, with x [2, n, K]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n", weight.shape[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "n", weight.shape[1]])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node], "g", [x], [y], initializer=[numpy_helper.from_array(weight, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_converted_product_matches_its_formula(precision: str) -> None:
    if precision == "int8" and saturates():
        pytest.skip(SATURATES)
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 64)).astype(np.float32)
    # A row of zeros has no maximum; a large row does not affect the others.
    x[0, 1], x[1, 2] = 0, 1000 * x[1, 2]
    weight = random.standard_normal((64, 7)).astype(np.float32)
    model = product_of(weight)
    convert(model, precision, ())
    with open_session(OnnxGraph(model.SerializeToString()), "cpu", precision, Workers()).run(
        ["y"], {"x": x}, {}
    ) as outputs:
        y = outputs["y"]
    if precision == "int8":
        s, t = np.abs(x).max(-1, keepdims=True) / 127, np.abs(weight).max(0) / 127
        expected = (np.rint(x / np.maximum(s, 1e-30)) @ np.rint(weight / t)) * s * t
    else:
        kind = torch.bfloat16 if precision == "bf16" else torch.float16
        expected = x @ torch.from_numpy(weight).to(kind).float().numpy()
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), 1)
    # A number half-way between two steps may be rounded either way: one step of its row times a
    # weight.
    np.testing.assert_allclose(
        y / scale,
        expected / scale,
        atol=0.03 if precision == "int8" else 1e-2 * (precision == "fp16") + 1e-5,
    )
    assert (y[0, 1] == 0).all()
