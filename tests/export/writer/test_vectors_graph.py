"""The graph of the vectors is what a trace of its own would give."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime

from headlight_export.folders.origin import read_origin
from headlight_export.writer.graphs import OPSET, Embed, traced
from headlight_export.writer.vectors_graph import vectors_alone
from tests.conftest import MakeBundle


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def test_it_has_the_operators_inputs_and_numbers_of_a_trace_of_its_own(
    make_bundle: MakeBundle, make_checkpoint: MakeBundle
) -> None:
    kind = "prompted"  # with segments, and a mask for pooling
    attend = onnx.load(make_bundle(kind) / "attend.onnx")
    before = attend.SerializeToString()
    made = vectors_alone(attend)
    assert attend.SerializeToString() == before
    expected = traced(Embed(read_origin(make_checkpoint(kind)).encoder), OPSET)
    assert operators(made) == operators(expected)
    for field in ("input", "output"):
        assert [*getattr(made.graph, field)] == [*getattr(expected.graph, field)]
    onnx.checker.check_model(made, full_check=True)
    ids = np.arange(2, 8).reshape(2, 3)
    feeds = {value.name: np.ones_like(ids) for value in made.graph.input} | {"ids": ids}
    results = [
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
        for model in (made, expected)
    ]
    for one, other in zip(*results, strict=True):
        assert np.abs(one - other).max() <= 1e-6


def test_weights_that_it_does_not_need_are_left_out(make_bundle: MakeBundle) -> None:
    made = vectors_alone(onnx.load(make_bundle("rope") / "attend.onnx"))
    used = {name for node in made.graph.node for name in node.input}
    assert {value.name for value in made.graph.initializer} <= used
