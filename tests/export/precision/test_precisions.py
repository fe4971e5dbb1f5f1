"""Reduced precisions, served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto

from headlight import AttentionSpec
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.encode_items import everything
from headlight.runtime.parity.golden_inputs import distances
from headlight_export.precision.conversion import PRECISIONS
from headlight_export.precision.variant_options import usable_precisions
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import load_checkpoint
from headlight_model.config import Dense
from headlight_model.encoder import Encoder
from headlight_service.app.assembly import load
from headlight_service.config.options import Config
from tests.conftest import MakeBundle
from tests.factory import small_config, write_checkpoint
from tests.processor import saturates


def items(runtime: Runtime, lengths: tuple[int, ...], selection: Selection) -> list[EncodeItem]:
    architecture = runtime.bundle.manifest.architecture
    random = np.random.default_rng(11)
    return [
        EncodeItem(
            random.integers(1, 90, size=n),
            selection,
            random.integers(0, max(1, architecture.segments), size=n),
        )
        for n in lengths
    ]


def pytorch(encoder: Encoder, item: EncodeItem) -> dict[str, Any]:
    segments = (
        torch.from_numpy(item.segments)[None]
        if encoder.config.segments and item.segments is not None
        else None
    )
    with torch.inference_mode():
        out = encoder(torch.from_numpy(item.ids)[None], segments=segments, fused=False)
    return {
        "pooled": out.pooled[0].numpy(),
        "tokens": out.tokens[0].numpy(),
        "attention": torch.cat(out.attention).numpy(),
        "hidden": torch.cat(out.hidden).numpy(),
    }


@pytest.mark.parametrize("kind", ["rope", "learned", "alibi", "disentangled"])
def test_every_precision_is_within_its_declared_tolerance(
    kind: str, make_variants: MakeBundle, make_checkpoint: MakeBundle
) -> None:
    """Uses inputs that the exporter did not try, against PyTorch; the self-test passes, too.

    The kinds have pre-norm, post-norm with segments, and gated layers without biases.
    """
    encoder = load_checkpoint(make_checkpoint(kind))
    here = [("cpu", "fp32"), *(("cpu", precision) for precision in PRECISIONS)]
    here += [("openvino", precision) for precision in usable_precisions("openvino")]
    for provider, precision in here:
        runtime = Runtime(make_variants(kind), provider=provider, precision=precision, threads=1)
        runtime.check_golden()
        tolerance = runtime.bundle.manifest.tolerance(provider, precision)
        every = items(runtime, (3, 1, 29, 80), everything(runtime.bundle.manifest.architecture))
        for item, result in zip(every, runtime.engine.run(every), strict=True):
            for name, error in distances(result, pytorch(encoder, item)).items():
                assert error <= tolerance.limits[name], (provider, precision, name)
        vectors = items(runtime, (3, 1, 29, 80), Selection(tokens=True))
        for item, result in zip(vectors, runtime.engine.run(vectors), strict=True):
            expected = {
                name: value
                for name, value in pytorch(encoder, item).items()
                if name in ("pooled", "tokens")
            }
            for name, error in distances(result, expected).items():
                assert error <= tolerance.limits[name], (provider, precision, name)


def test_family_specific_layers_are_converted(tmp_path: Path, texts: Path) -> None:
    """Narrow embeddings, shared keys, norms of queries and keys,
    local layers with their own angles, dense layers.
    """
    config = small_config(
        heads=6,
        kv_heads=2,
        head_width=8,
        embedding_dim=20,
        qk_norm="head",
        norm_type="rms",
        ffn="gated",
        window=3,
        local_layers=(0,),
        rope_local_theta=500.0,
        dense=(Dense(width=48, bias=True, activation="tanh"), Dense(width=36)),
    )
    found = export_checkpoint(
        write_checkpoint(tmp_path / "checkpoint", config),
        tmp_path / "out",
        precisions=PRECISIONS,
        texts=texts,
    )
    exact = [
        quality
        for quality in found.quality
        if not (quality.entry.precision == "int8" and saturates())
    ]
    assert all(quality.entry.cosine_mean > 0.99 for quality in exact)
    for precision in PRECISIONS:
        runtime = load(Config(bundle=tmp_path / "out", precision=precision))
        [result] = runtime.encode_items(["some text"])
        assert result.pooled is not None
        assert result.pooled.shape == (36,)
        large = [
            t
            for t in onnx.load(tmp_path / "out" / f"embed.{precision}.onnx").graph.initializer
            if len(t.dims) == 2
        ]
        assert all("angles" in t.name for t in large if t.data_type == TensorProto.FLOAT)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_vector_of_a_text_does_not_depend_on_its_batch(
    precision: str, make_variants: MakeBundle
) -> None:
    runtime = Runtime(make_variants("rope"), precision=precision, threads=1)
    texts = items(runtime, (5, 40, 2, 17, 33, 9), Selection(tokens=True))
    for item, together in zip(texts, runtime.engine.run(texts), strict=True):
        [alone] = runtime.engine.run([item])
        assert alone.pooled is not None
        assert together.pooled is not None
        assert np.abs(alone.pooled - together.pooled).max() <= 1e-6


@pytest.mark.parametrize("precision", PRECISIONS)
def test_selectors_work_in_every_precision(precision: str, make_variants: MakeBundle) -> None:
    """Selectors may be empty; each form must match the whole maps of the same graph."""
    runtime = Runtime(make_variants("rope"), precision=precision, threads=1)

    def attention(**wish: Any) -> Any:
        [result] = runtime.encode_items([[5, 9, 33, 7, 21]], attention=AttentionSpec.of(**wish))
        return result

    maps = attention().attention
    assert maps.shape == (2, 3, 5, 5)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(attention(reduce=["head_mean"]).attention, maps.mean(1), atol=1e-5)
    np.testing.assert_allclose(attention(pairs=[(1, 2)]).attention[0], maps[1, 2], atol=1e-6)
    np.testing.assert_allclose(
        attention(top_k=2).attention, -np.sort(-maps, axis=-1)[..., :2], atol=1e-6
    )
    wanted = everything(runtime.bundle.manifest.architecture)["hidden"]
    [states] = runtime.encode_items([[5, 9]], hidden=wanted.spec)
    assert states.hidden is not None  # and nothing of attention: every selector is empty
    assert states.hidden.shape == (3, 2, 36)


def test_weights_are_stored_in_fewer_bits_and_angles_are_exact(make_variants: MakeBundle) -> None:
    bundle = make_variants("rope")
    kinds = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16, "int8": TensorProto.INT8}
    for precision, kind in kinds.items():
        model = onnx.load(bundle / f"attend.{precision}.onnx")
        large = [tensor for tensor in model.graph.initializer if len(tensor.dims) == 2]
        exact = {tensor.name for tensor in large if tensor.data_type == TensorProto.FLOAT}
        assert exact
        assert all("angles" in name for name in exact)
        assert sum(tensor.data_type == kind for tensor in large) >= 8  # four in each of two layers
    full = (bundle / "weights.bin").stat().st_size
    assert (bundle / "weights.int8.bin").stat().st_size < full
