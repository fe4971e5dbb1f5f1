"""Graphs in reduced precision, product by product."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers.provider_choice import open_session
from headlight.runtime.providers.worker_layout import Workers
from headlight_export.precision.conversion import PRECISIONS, convert
from headlight_export.precision.graph_files import convertible, write_precision
from headlight_export.precision.variant_options import check_family, known_variants
from headlight_model.checkpoint import load_checkpoint
from tests.conftest import MakeBundle
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


class MultiHeadAttention(OpRun):
    """As ONNX Runtime documents it: sums in float32, the rest in the type of the inputs."""

    op_domain = "com.microsoft"

    def _run(self, *inputs: Any, num_heads: int, scale: float) -> tuple[Any]:
        query, keys, values = (
            x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2).astype(np.float32) for x in inputs
        )
        scores = scale * query @ keys.swapaxes(2, 3)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = (weights / weights.sum(-1, keepdims=True)).astype(inputs[0].dtype)
        context = (weights.astype(np.float32) @ values).swapaxes(1, 2)
        return (context.reshape(inputs[2].shape).astype(inputs[0].dtype),)


@pytest.mark.parametrize(("precision", "bits"), [("fp16", 11), ("bf16", 8)])
@pytest.mark.parametrize("kind", ["learned", "rope", "sinusoidal"])
def test_the_graph_for_cuda_gives_the_vectors_in_narrow_numbers(
    kind: str,
    precision: str,
    bits: int,
    make_bundle: MakeBundle,
    make_checkpoint: MakeBundle,
    tmp_path: Path,
) -> None:
    """Computed by ONNX's own evaluator: no provider for CPUs has these kernels."""
    copy, encoder = (
        Path(shutil.copytree(make_bundle(kind), tmp_path / "copy")),
        load_checkpoint(make_checkpoint(kind)),
    )
    graphs = write_precision(copy, convertible(Bundle(copy).manifest.graphs), precision, encoder)
    [graph] = [each for each in graphs if "cuda" in each.providers and each.role == "embed"]
    assert (graph.form, graph.providers) == ("fused", ("cuda",))
    assert [each.providers for each in graphs if each.form != "fused"] == [
        ("cpu",),
        ("cpu", "cuda"),
    ]
    model = onnx.load(copy / graph.file)
    onnx.checker.check_model(model)
    narrow = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[precision]
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    assert {types[node.input[1]] for node in products if node.input[1] in types} == {narrow}
    # Nothing is cast up and down again: from a product to the next, all stays narrow.
    casts = {node.output[0]: node for node in model.graph.node if node.op_type == "Cast"}
    assert not any(
        node.attribute[0].i == narrow and node.input[0] in casts for node in casts.values()
    )
    mask = np.array([[1] * 7, [1, 1, 0, 1, 1, 0, 0], [0] * 7, [1] + [0] * 6], dtype=np.int64)
    ids = np.random.default_rng(0).integers(2, 8, mask.shape) * mask
    known = {"ids": ids, "mask": mask, "pool_mask": mask}
    feeds = {each.name: known.get(each.name, np.zeros_like(ids)) for each in model.graph.input}
    exact = ReferenceEvaluator(onnx.load(copy / "embed.onnx")).run(None, feeds)
    narrowed = ReferenceEvaluator(model, new_ops=[MultiHeadAttention]).run(None, feeds)
    for one, other, value in zip(exact, narrowed, model.graph.output, strict=True):
        assert other.dtype == np.float32
        worst = np.abs(one - other).max() / np.abs(one).max()
        assert 2.0**-bits / 100 < worst < 16 * 2.0**-bits, (value.name, worst)


def test_scores_that_depend_on_more_than_padding_leave_one_graph_for_both_providers(
    make_bundle: MakeBundle, make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(make_bundle("alibi"), tmp_path / "copy"))
    exact = convertible(Bundle(copy).manifest.graphs)
    graphs = write_precision(copy, exact, "fp16", load_checkpoint(make_checkpoint("alibi")))
    assert [(each.form, each.providers) for each in graphs] == [("decomposed", ("cpu", "cuda"))] * 2
