"""Graphs in fewer bits, of every scheme of positions, and what is declared and refused of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from export import variants, writer
from export.precision import PRECISIONS, convert
from export.variants import known_precisions
from export.writer import export_checkpoint
from headlight import AttentionSpec
from headlight.errors import BundleError
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.bundle import Bundle
from headlight.runtime.engine import _open_session
from headlight.runtime.items import everything
from headlight.runtime.parity import distances
from model.checkpoint import load_checkpoint
from model.config import Dense
from model.encoder import Encoder
from service.config import Config
from service.loading import load
from tests.conftest import MakeBundle
from tests.factory import SCHEMES, small_config, write_checkpoint
from tests.tampering import relist, rewrite

TEXTS = [
    f"{'abcdefghij'[i % 10] * (1 + i % 7)} {i} {'xyzuv'[: 1 + i % 5]} ({i * 37 % 101}) {'lm ' * (i % 9)}"
    for i in range(40)
]
Export = Callable[..., writer.Exported]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def make_variants(
    make_bundle: MakeBundle, make_checkpoint: MakeBundle, texts: Path, tmp_path_factory: pytest.TempPathFactory
) -> MakeBundle:
    """A key of KINDS -> a bundle in all precisions; its graphs are those of make_bundle, for tracing takes seconds."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("variants") / kind
            traced = make_bundle(kind)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(writer, "trace", lambda _, role: onnx.load(traced / f"{role}.onnx"))
                export_checkpoint(make_checkpoint(kind), made[kind], precisions=PRECISIONS, texts=texts)
        return made[kind]

    return make


@pytest.fixture
def export(
    make_bundle: MakeBundle, make_checkpoint: MakeBundle, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> Export:
    """Export the rotary model once more, graphs taken from make_bundle."""
    traced = make_bundle("rope")
    monkeypatch.setattr(writer, "trace", lambda _, role: onnx.load(traced / f"{role}.onnx"))

    def run(out: Path, *precisions: str, **options: Any) -> writer.Exported:
        return export_checkpoint(make_checkpoint("rope"), out, precisions=precisions, **{"texts": texts} | options)

    return run


@pytest.fixture
def copied(make_variants: MakeBundle, tmp_path: Path) -> Path:
    """The rotary bundle in all precisions, to be changed."""
    return Path(shutil.copytree(make_variants("rope"), tmp_path / "copy"))


def items(runtime: Runtime, lengths: tuple[int, ...], selection: Selection) -> list[EncodeItem]:
    architecture = runtime.bundle.manifest.architecture
    random = np.random.default_rng(11)
    return [
        EncodeItem(random.integers(1, 90, size=n), selection, random.integers(0, max(1, architecture.segments), size=n))
        for n in lengths
    ]


def pytorch(encoder: Encoder, item: EncodeItem) -> dict[str, Any]:
    segments = torch.from_numpy(item.segments)[None] if encoder.config.segments and item.segments is not None else None
    with torch.inference_mode():
        out = encoder(torch.from_numpy(item.ids)[None], segments=segments, fused=False)
    return {
        "pooled": out.pooled[0].numpy(),
        "tokens": out.tokens[0].numpy(),
        "attention": torch.cat(out.attention).numpy(),
        "hidden": torch.cat(out.hidden).numpy(),
    }


@pytest.mark.parametrize("kind", [*SCHEMES, "causal"])
def test_every_precision_of_every_scheme_serves_within_what_it_declares(
    kind: str, make_variants: MakeBundle, make_checkpoint: MakeBundle
) -> None:
    """On inputs that the exporter did not try, against PyTorch; the gate lets it pass, too."""
    encoder = load_checkpoint(make_checkpoint(kind))
    for precision in ("fp32", *PRECISIONS):
        runtime = Runtime(make_variants(kind), precision=precision, threads=1)
        runtime.check_golden()
        tolerance = runtime.bundle.manifest.tolerance("cpu", precision)
        every = items(runtime, (3, 1, 29, 80), everything(runtime.bundle.manifest.architecture))
        for item, result in zip(every, runtime.engine.run(every), strict=True):
            for name, error in distances(result, pytorch(encoder, item)).items():
                assert error <= tolerance.of(name), (precision, name)
        vectors = items(runtime, (3, 1, 29, 80), Selection(tokens=True))
        for item, result in zip(vectors, runtime.engine.run(vectors), strict=True):
            expected = {name: value for name, value in pytorch(encoder, item).items() if name in ("pooled", "tokens")}
            for name, error in distances(result, expected).items():
                assert error <= tolerance.of(name), (precision, name)


def test_what_families_have_beyond_the_schemes_is_converted_too(tmp_path: Path, texts: Path) -> None:
    """Narrow embeddings, shared keys, norms of queries and keys, local layers with angles of their own, dense layers."""
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
        write_checkpoint(tmp_path / "checkpoint", config), tmp_path / "out", precisions=PRECISIONS, texts=texts
    )
    assert all(quality.entry.cosine_mean > 0.99 for quality in found.quality)
    for precision in PRECISIONS:
        runtime = load(Config(bundle=tmp_path / "out", precision=precision))
        [result] = runtime.encode(["some text"])
        assert result.pooled is not None
        assert result.pooled.shape == (36,)
        large = [
            t for t in onnx.load(tmp_path / "out" / f"embed.{precision}.onnx").graph.initializer if len(t.dims) == 2
        ]
        assert all("angles" in t.name for t in large if t.data_type == TensorProto.FLOAT)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_vector_of_a_text_does_not_depend_on_its_batch(precision: str, make_variants: MakeBundle) -> None:
    runtime = Runtime(make_variants("rope"), precision=precision, threads=1)
    texts = items(runtime, (5, 40, 2, 17, 33, 9), Selection(tokens=True))
    for item, together in zip(texts, runtime.engine.run(texts), strict=True):
        [alone] = runtime.engine.run([item])
        assert alone.pooled is not None
        assert together.pooled is not None
        assert np.abs(alone.pooled - together.pooled).max() <= 1e-6


@pytest.mark.parametrize("precision", PRECISIONS)
def test_selectors_select_in_every_precision(precision: str, make_variants: MakeBundle) -> None:
    """They take what may be empty; each form must be that of the whole maps of the same graph."""
    runtime = Runtime(make_variants("rope"), precision=precision, threads=1)

    def attention(**wish: Any) -> Any:
        [result] = runtime.encode([[5, 9, 33, 7, 21]], attention=AttentionSpec.of(**wish))
        return result

    maps = attention().attention
    assert maps.shape == (2, 3, 5, 5)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(attention(reduce=["head_mean"]).attention, maps.mean(1), atol=1e-5)
    np.testing.assert_allclose(attention(pairs=[(1, 2)]).attention[0], maps[1, 2], atol=1e-6)
    np.testing.assert_allclose(attention(top_k=2).attention, -np.sort(-maps, axis=-1)[..., :2], atol=1e-6)
    [states] = runtime.encode([[5, 9]], hidden=everything(runtime.bundle.manifest.architecture).hidden.spec)  # type: ignore[union-attr]
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


def test_what_is_wished_for_is_named_and_nothing_else_is_chosen(bundle_path: Path, make_variants: MakeBundle) -> None:
    assert Runtime(make_variants("rope"), threads=1).precision == "fp32"
    with pytest.raises(BundleError, match=r"no embed graph for cpu/int8; the bundle has cpu/fp32$"):
        Runtime(bundle_path, precision="int8")
    with pytest.raises(BundleError, match="the bundle has cpu/bf16, cpu/fp16, cpu/fp32, cpu/int8"):
        Runtime(make_variants("rope"), precision="int4")
    served = load(Config(bundle=make_variants("rope"), precision="int8"))
    assert served.precision == "int8"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_outside_the_declared_tolerance_the_service_does_not_start(precision: str, copied: Path) -> None:
    def tighten(manifest: dict[str, Any]) -> None:
        for tolerance in manifest["tolerances"]:
            if tolerance["precision"] == precision:
                tolerance["attention"] = 1e-9

    rewrite(copied, tighten)
    with pytest.raises(BundleError, match=f"attend.{precision}.onnx: golden attention is off by .* on cpu/{precision}"):
        load(Config(bundle=copied, precision=precision))
    load(Config(bundle=copied))  # fp32 has its own


def test_damaged_int8_weights_do_not_pass_the_gate_though_all_digests_agree(copied: Path) -> None:
    name = "weights.int8.bin"
    data = np.frombuffer((copied / name).read_bytes(), dtype=np.uint8).copy()
    data[len(data) // 2 :] = 0
    (copied / name).write_bytes(data.tobytes())
    relist(copied, name)
    with pytest.raises(BundleError, match=r"int8\.onnx"):
        load(Config(bundle=copied, precision="int8"))


def test_a_conversion_that_breaks_the_model_is_not_written(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faults: scales of 0, and scales that are no numbers."""

    def broken(value: float) -> Callable[..., None]:
        def wrong(model: onnx.ModelProto, *others: Any) -> None:
            convert(model, *others)
            for tensor in model.graph.initializer:
                if tensor.name.endswith(".scales"):
                    numbers = np.full_like(numpy_helper.to_array(tensor), value)
                    tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))

        return wrong

    for value, problem in ((0.0, "whose cosine with fp32 is"), (float("nan"), "not finite")):
        monkeypatch.setattr(variants, "convert", broken(value))
        with pytest.raises(ValueError, match=f"int8 gives .*{problem}.*leave --precision int8 out"):
            export(tmp_path / "out", "int8")
        assert list(tmp_path.iterdir()) == []


def test_a_weight_that_float16_has_not_is_refused() -> None:
    model = product_of(np.full((4, 3), 1e6, dtype=np.float32))
    with pytest.raises(ValueError, match=r"w holds a number that float16 has not"):
        convert(model, "fp16", ())
    convert(product_of(np.full((4, 3), 1e6, dtype=np.float32)), "bf16", ())


def test_precisions_are_known_by_name() -> None:
    assert known_precisions(["int8", "fp32", "fp16", "int8"]) == ("int8", "fp16")
    with pytest.raises(ValueError, match="--precision int4: choose of bf16, fp16, int8; fp32 is always written"):
        known_precisions(["int4"])


def product_of(weight: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """y = x w, x [2, n, K]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n", weight.shape[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "n", weight.shape[1]])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], initializer=[numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_product_is_what_its_formula_says(precision: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 64)).astype(np.float32)
    x[0, 1], x[1, 2] = 0, 1000 * x[1, 2]  # a row of zeros has no largest; a large one costs the others nothing
    weight = random.standard_normal((64, 7)).astype(np.float32)
    model = product_of(weight)
    convert(model, precision, ())
    onnx.save(model, tmp_path / "g.onnx")
    [y] = _open_session(str(tmp_path / "g.onnx"), 1, False).run(["y"], {"x": x})
    if precision == "int8":
        s, t = np.abs(x).max(-1, keepdims=True) / 127, np.abs(weight).max(0) / 127
        expected = (np.rint(x / np.maximum(s, 1e-30)) @ np.rint(weight / t)) * s * t
    else:
        kind = torch.bfloat16 if precision == "bf16" else torch.float16
        expected = x @ torch.from_numpy(weight).to(kind).float().numpy()
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), 1)
    # A number half-way between two steps may go either way; that is a step of its row, times a weight.
    np.testing.assert_allclose(
        y / scale, expected / scale, atol=0.03 if precision == "int8" else 1e-2 * (precision == "fp16") + 1e-5
    )
    assert (y[0, 1] == 0).all()


def test_the_report_says_what_each_precision_costs(make_variants: MakeBundle) -> None:
    bundle = make_variants("rope")
    report, manifest = json.loads((bundle / "parity.json").read_text()), Bundle(bundle).manifest
    assert [found["precision"] for found in report["quality"]] == ["fp32", *PRECISIONS]
    assert [found.precision for found in manifest.quality] == ["fp32", *PRECISIONS]
    for entry, found in zip(manifest.quality, report["quality"], strict=True):
        assert (entry.texts, entry.count, entry.real_text) == ("lines of texts.txt", 40, True)
        assert 0.9 <= entry.cosine_min <= entry.cosine_p1 <= entry.cosine_mean <= 1 + 1e-6
        assert 0 <= entry.nearest_kept <= 1
        assert 0 <= entry.ten_nearest_kept <= 1
        assert found["max_error"].keys() == {"pooled", "tokens", "attention", "hidden"}
    exact, rough = manifest.quality[0], manifest.quality[-1]
    assert (exact.nearest_kept, exact.ten_nearest_kept) == (1, 1)
    assert rough.cosine_mean < exact.cosine_mean
    for precision in PRECISIONS:
        rows = [row for row in report["rows"] if row["precision"] == precision]
        assert {row["output"] for row in rows} == {"pooled", "tokens", "attention", "hidden"}
        assert all(row["max_error"] <= row["tolerance"] for row in rows)
        for provider in ("cpu", "openvino"):
            assert manifest.tolerance(provider, precision).pooled < 1


def test_without_precisions_the_bundle_is_as_before(bundle_path: Path) -> None:
    manifest = Bundle(bundle_path).manifest
    assert manifest.variants == (("cpu", "fp32"),)
    assert manifest.quality == ()
