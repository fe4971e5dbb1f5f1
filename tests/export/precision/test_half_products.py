"""Products in float16, as on a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from headlight_export.command import main
from headlight_export.parity.activations import record_largest
from headlight_export.parity.reference import Reference
from headlight_export.precision import half_products
from headlight_export.precision.conversion import convert
from headlight_export.precision.half_products import HalfProducts, measure_half
from headlight_export.precision.quality import BrokenVariantError
from headlight_export.precision.sample_texts import passages
from headlight_export.writer import fp32_parts
from headlight_model.checkpoint import load_checkpoint, save_checkpoint
from headlight_model.config import Dense, MultiVectorHead
from headlight_model.encoder import Encoder
from tests.conftest import MakeBundle
from tests.factory import sharpened, small_config, small_tokenizer

RANDOM = passages(small_config(), None, None)  # ids


def down(encoder: Encoder, layer: int) -> nn.Linear:
    """Return the product after which a feed-forward network is added to the residual stream."""
    module = encoder.get_submodule(f"blocks.{layer}.feed_forward.down")
    assert isinstance(module, nn.Linear)
    return module


def with_activations(largest: float) -> Encoder:
    """Return a pre-norm encoder whose residual stream is of this size, as in deep models.

    A norm follows, so its vectors are as well defined as those of any other.
    """
    encoder = sharpened(small_config())
    for _ in range(2):  # at first its inputs are larger than what it gives
        with record_largest(encoder) as before, torch.inference_mode():
            for item in RANDOM.items:
                encoder(torch.from_numpy(item.ids)[None])
        down(encoder, 0).weight.data *= largest / before["blocks.0.feed_forward.down"]
    return encoder


def test_activations_of_a_deep_model_are_refused_in_fp16_and_fit_bf16(
    tmp_path: Path,
    texts: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, out = tmp_path / "checkpoint", tmp_path / "out"
    save_checkpoint(folder, with_activations(1e5), small_tokenizer().to_str())
    options = [str(folder), "--out", str(out), "--texts", str(texts), "--precision"]
    assert main([*options, "bf16"]) == 0
    capsys.readouterr()
    # The same graph again: tracing takes seconds.
    monkeypatch.setattr(fp32_parts, "trace", lambda _: onnx.load(out / "attend.onnx"))
    options[2] = str(tmp_path / "half")
    assert main([*options, "fp16"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"export: --precision fp16 may overflow: numbers reach [\d.]+e\+0[45] in blocks\.0.*, "
        r"float16 ends at 65504, .* or give --precision bf16, which has float32's range",
        line,
    )
    assert not (tmp_path / "half").exists()


def test_float16_keeps_room_for_other_texts() -> None:
    half = measure_half(Reference(with_activations(30_000)), RANDOM)
    assert half.module.startswith("blocks.")
    assert 20_000 < half.largest < 32_752
    assert half.nearness["pooled"].worst >= 0.9999
    with pytest.raises(BrokenVariantError, match=r"numbers reach [345](\.\d)?e\+04 in blocks\."):
        measure_half(Reference(with_activations(40_000)), RANDOM)


def test_what_attention_reads_is_judged_only_where_it_is_in_float16() -> None:
    """A large number of all keys, by which no query multiplies."""
    encoder = sharpened(small_config())
    config, projection = encoder.config, "blocks.0.attention.project_in"
    of_head = slice(config.dim // config.heads)
    encoder.get_parameter(f"{projection}.weight").data[of_head] = 0
    encoder.get_parameter(f"{projection}.bias").data[of_head] = 0
    encoder.get_parameter(f"{projection}.bias").data[config.dim] = 4e4
    with pytest.raises(BrokenVariantError, match=r"numbers reach 4e\+04 in attention"):
        measure_half(Reference(encoder), RANDOM)
    assert measure_half(Reference(encoder), RANDOM, attention=False).largest < 1e3


def test_what_a_norm_takes_away_is_lost_in_float16() -> None:
    """A large number common to all dimensions is in range, and rounds the differences away."""
    encoder = sharpened(small_config())
    last = down(encoder, 1)
    last.bias.data += 5e4  # added after the product, in float32: harmless
    half = measure_half(Reference(encoder), RANDOM)
    assert half.nearness["pooled"].worst >= 0.9999
    assert half.largest < 1e3
    last.bias.data -= 5e4
    last.weight.data += 200.0
    with pytest.raises(
        BrokenVariantError,
        match=r"fp16 gives an output pooled whose cosine with fp32 with products in float16, as on "
        r"a GPU, is 0\.\d{6} on average, below 0\.9999",
    ):
        measure_half(Reference(encoder), RANDOM)


def test_float16_is_judged_by_the_outputs_of_the_task() -> None:
    """The product of the head has a large part in common, and its bias takes it away."""
    head = MultiVectorHead(layers=(Dense(width=16, bias=True),))
    encoder = sharpened(small_config(layers=1, multi_vector_head=head))
    norm, product = encoder.final_norm, encoder.get_submodule("multi_vector_head.0")
    assert isinstance(norm, nn.LayerNorm)
    assert isinstance(product, nn.Linear)
    norm.weight.data[:], norm.bias.data[:] = 1, 1  # so the sum of a row is its width
    product.weight.data += 200
    product.bias.data -= 200 * encoder.config.dim
    assert measure_half(Reference(encoder), RANDOM).nearness["pooled"].worst >= 0.9999
    with pytest.raises(BrokenVariantError, match="an output multi_vector whose cosine with fp32"):
        measure_half(Reference(encoder), RANDOM, ["tokens", "multi_vector"])


def test_the_products_of_the_fp16_graph_are_rounded_and_no_others(
    bundle_path: Path, make_checkpoint: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, graph = load_checkpoint(make_checkpoint("rope")), onnx.load(bundle_path / "embed.onnx")
    convert(graph, "fp16", {f"encoder.{name}" for name, _ in encoder.named_parameters()})
    products = [
        node
        for node in graph.graph.node
        if node.op_type == "MatMul" and node.input[0].endswith(".narrow")
    ]
    rounded = list[int]()

    def half(x: torch.Tensor) -> torch.Tensor:
        rounded.append(x.ndim)
        return x.half().float()

    monkeypatch.setattr(half_products, "_half", half)
    with HalfProducts(), torch.inference_mode():
        encoder(torch.from_numpy(np.arange(1, 9))[None])
    # Queries, keys, values and contexts have heads of their own.
    assert sorted(rounded) == [3] * 2 * len(products) + [4] * 4 * encoder.config.layers
