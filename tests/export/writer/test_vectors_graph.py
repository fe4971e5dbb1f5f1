"""The graph of the vectors is what a trace of its own would give; its attention can be fused."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

from headlight.runtime.bundle.manifest_fields import MANIFEST
from headlight_export.folders.origin import read_origin
from headlight_export.writer.fused_attention import FORMS, with_fused_attention
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


@pytest.mark.parametrize("kind", ["learned", "rope", "sinusoidal"])
@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_fused_attention_gives_the_same_beside_longer_and_empty_texts_and_with_hidden_tokens(
    provider: str, kind: str, make_bundle: MakeBundle, make_checkpoint: MakeBundle
) -> None:
    plain = vectors_alone(onnx.load(make_bundle(kind) / "attend.onnx"))
    before = plain.SerializeToString()
    config, form = read_origin(make_checkpoint(kind)).encoder.config, FORMS[provider, "fp32"]
    fused = with_fused_attention(plain, config, form)
    assert plain.SerializeToString() == before
    assert fused is not None
    assert "Softmax" not in operators(fused)
    sessions = [
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for model in (plain, fused)
    ]
    for lengths in ([7], [7, 3, 0, 1]):
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        mask[0, 3] = 0  # hidden in the midst of a text
        ids = np.random.default_rng(0).integers(2, 8, mask.shape) * mask
        known = {"ids": ids, "mask": mask, "pool_mask": mask}
        feeds = {
            value.name: known.get(value.name, np.zeros_like(ids)) for value in fused.graph.input
        }
        pooled, tokens = (
            [session.run([name], feeds)[0] for session in sessions] for name in ("pooled", "tokens")
        )
        assert np.abs(pooled[0] - pooled[1]).max() <= 1e-6
        assert np.abs((tokens[0] - tokens[1]) * mask[..., None]).max() <= 1e-5


@pytest.mark.parametrize("kind", ["alibi", "causal", "relative"])
def test_attention_is_not_fused_if_scores_depend_on_more_than_padding(
    kind: str, make_bundle: MakeBundle
) -> None:
    bundle = make_bundle(kind)
    assert {each["form"] for each in json.loads((bundle / MANIFEST).read_text())["graphs"]} == {
        "decomposed"
    }
    assert not (bundle / "embed.fused.onnx").exists()
