"""Calibrated int8 graphs for OpenVINO, served, and the search of layers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from headlight import AttentionSpec
from headlight.errors import BundleError
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.providers import openvino_session
from headlight_export.precision import sample_texts, variant_graphs
from headlight_export.precision.graph_files import convertible, write_precision
from headlight_export.precision.layer_search import layer_products
from headlight_export.precision.sample_texts import Passage
from headlight_export.precision.static_int8 import calibrate, write_static
from headlight_export.precision.variant_options import check_texts, known_variants
from headlight_export.writer import fp32_parts
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import load_checkpoint
from headlight_service.app.assembly import load
from headlight_service.config.options import Config
from tests.conftest import MakeBundle
from tests.export.conftest import TEXTS, Export
from tests.once import once

CALIBRATED = "calibrated.onnx"
OTHERS = [f"{text[::-1]} {i}" for text in TEXTS for i in range(3)]


def language_reference() -> list[str]:
    """Return a tenth of the paragraphs of a search."""
    return sample_texts.language_reference(40)


@pytest.fixture(scope="session")
def calibrated(
    make_bundle: MakeBundle,
    make_checkpoint: MakeBundle,
    texts: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return the rotary bundle with int8, ONNX Runtime's and OpenVINO's, calibrated on OTHERS.

    Beside its files is NNCF's own graph.
    """

    found = list[onnx.ModelProto]()

    def saved_calibrate(model: onnx.ModelProto, texts: Sequence[Passage]) -> onnx.ModelProto:
        found.append(calibrate(model, texts))
        return found[-1]

    def export(out: Path) -> None:
        lines = out.with_name("calibration.txt")
        lines.write_text("\n".join(OTHERS), encoding="utf-8")
        traced = make_bundle("rope") / "attend.onnx"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fp32_parts, "trace", lambda _: onnx.load(traced))
            patch.setattr(variant_graphs, "calibrate", saved_calibrate)
            patch.setattr(variant_graphs, "language_reference", language_reference)
            export_checkpoint(
                make_checkpoint("rope"),
                out,
                precisions=["int8"],
                providers=["openvino"],
                texts=texts,
                calibration=lines,
                keep_nearest=0.2,  # less than int8 keeps: the search ends at once
            )
        onnx.save(found[-1], out / CALIBRATED)

    return once(tmp_path_factory, "static-int8", export)


@pytest.fixture
def runtime(calibrated: Path) -> Runtime:
    return Runtime(calibrated, provider="openvino", precision="int8", threads=1)


def items(wanted: Selection) -> list[EncodeItem]:
    random = np.random.default_rng(3)
    return [EncodeItem(random.integers(5, 90, size=n), wanted) for n in (5, 40, 2, 17, 33, 9)]


def test_int8_on_openvino_is_served_within_its_declared_tolerance(calibrated: Path) -> None:
    service = load(Config(bundle=calibrated, provider="openvino", precision="int8"))
    assert (service.provider, service.precision) == ("openvino", "int8")
    exact = Runtime(calibrated, threads=1)
    [[expected], [got]] = [each.encode_items(["some text"]) for each in (exact, service)]
    assert expected.pooled is not None
    assert got.pooled is not None
    error = float(np.abs(got.pooled - expected.pooled).max())
    tolerance = Bundle(calibrated).manifest.tolerance("openvino", "int8")
    assert 1e-5 < error <= tolerance.limits["pooled"]


def test_openvino_computes_the_products_of_layers_in_int8(runtime: Runtime) -> None:
    session = runtime.engine._sessions["embed"]
    assert isinstance(session, openvino_session.OpenVinoSession)
    kinds = [
        info["runtimePrecision"].astype(str)
        for node in session._narrow.present.compiled.get_runtime_model().get_ordered_ops()
        if (info := node.get_rt_info())["layerType"].astype(str) == "FullyConnected"
    ]
    assert kinds.count("i8") == 8  # four in each of two layers


def test_served_vectors_are_those_of_the_graph_that_nncf_returned(
    runtime: Runtime, calibrated: Path
) -> None:
    core = openvino_session.library().Core()
    compiled = core.compile_model(
        core.read_model(str(calibrated / CALIBRATED)),
        "CPU",
        {"INFERENCE_PRECISION_HINT": "bf16" if openvino_session._has_bf16() else "f32"},
    )
    ids = np.random.default_rng(5).integers(5, 90, size=openvino_session.LANES)
    expected = compiled({"ids": ids[None], "mask": np.ones_like(ids)[None]})["pooled"][0]
    [result] = runtime.engine.run([EncodeItem(ids, Selection())])
    assert result.pooled is not None
    got, wanted = (vector / np.linalg.norm(vector) for vector in (result.pooled, expected))
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_a_vector_of_static_int8_does_not_depend_on_its_batch(runtime: Runtime) -> None:
    """The graph with attention adds up in another order, which can round to another int8 value."""
    tolerance = runtime.bundle.manifest.tolerance("openvino", "int8").limits["pooled"]
    together = runtime.engine.run(items(Selection(tokens=True)))
    for item, batched in zip(items(Selection(tokens=True)), together, strict=True):
        [alone] = runtime.engine.run([item])
        [result] = runtime.encode_items([item.ids.tolist()], attention=AttentionSpec())
        for other, limit in ((alone, 1e-6), (result, tolerance)):
            assert other.pooled is not None
            assert batched.pooled is not None
            assert np.abs(other.pooled - batched.pooled).max() <= limit


def test_batches_of_static_int8_have_whole_registers(runtime: Runtime, calibrated: Path) -> None:
    """A length of 17 drifts with the batch; other graphs keep their lengths."""
    assert [runtime.engine.rounding.up(n) for n in (1, 16, 17)] == [16, 16, 32]
    odd = Runtime(calibrated, provider="openvino", precision="int8", threads=1, round_lengths=24)
    assert odd.engine.rounding.up(17) == 48
    assert Runtime(calibrated, precision="int8", threads=1).engine.rounding.up(17) == 17


def test_nncf_sends_no_telemetry() -> None:
    """In a process of its own: NNCF disables telemetry by itself if it finds pytest."""
    program = (
        "from headlight_export.precision.static_int8 import nncf_library; nncf_library();"
        "import sys; from nncf.telemetry import telemetry; from unittest.mock import MagicMock;"
        "assert sys.modules['openvino_telemetry'] is None; assert isinstance(telemetry, MagicMock)"
    )
    variables = {n: v for n, v in os.environ.items() if n not in ("NNCF_CI", "NNCF_DEV")}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, env=variables)


def test_manifest_and_report_show_the_sets_of_texts_and_the_search(calibrated: Path) -> None:
    manifest = Bundle(calibrated).manifest
    sets = {each.use: each for each in manifest.text_sets}
    assert list(sets) == ["report", "calibration", "search"]
    assert (sets["calibration"].texts, sets["calibration"].count) == ("lines of --calibration", 120)
    assert sets["search"].texts.startswith("language reference of Python")
    assert len({each.sha256 for each in sets.values()}) == 3
    report = json.loads((calibrated / "parity.json").read_text(encoding="utf-8"))
    assert [(found["provider"], found["kept"]) for found in report["layer_searches"]] == [
        ("cpu", []),
        ("openvino", []),
    ]
    rough = report["quality"][-1]
    assert (rough["provider"], rough["precision"]) == ("openvino", "int8")
    assert 0 < rough["attention_mean_error"] < rough["max_error"]["attention"]


def test_kept_products_stay_in_fp32(calibrated: Path, tmp_path: Path) -> None:
    """With all of them kept, the graph is that of fp32."""
    copy = Path(shutil.copytree(calibrated, tmp_path / "copy"))
    manifest = Bundle(copy).manifest
    [exact] = [g for g in convertible(manifest.graphs) if g.role == "embed"]
    groups = layer_products(onnx.load(copy / "embed.onnx").graph)
    static = onnx.load(copy / "embed.int8-static.onnx")
    second = groups["layer 1: feed-forward, second"]
    for kept, left in ((second, 7), ([n for names in groups.values() for n in names], 0)):
        write_static(copy, [exact], static, kept)
        written = onnx.load(copy / "embed.int8-static.onnx").graph
        quantised = [
            tensor
            for tensor in written.initializer
            if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 2
        ]
        assert len(quantised) == left
    assert [node.op_type for node in written.node] == [
        node.op_type for node in onnx.load(copy / "embed.onnx").graph.node
    ]


def test_kept_products_stay_in_fp32_on_onnx_runtime(
    calibrated: Path, make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(calibrated, tmp_path / "copy"))
    exact = [g for g in convertible(Bundle(copy).manifest.graphs) if g.role == "embed"]
    groups = layer_products(onnx.load(copy / "embed.onnx").graph)
    encoder = load_checkpoint(make_checkpoint("rope"))
    for kept in ((), groups["layer 1: feed-forward, second"]):
        write_precision(copy, exact, "int8", encoder, kept)
        nodes = onnx.load(copy / "embed.int8.onnx").graph.node
        assert sum(node.op_type == "MatMulInteger" for node in nodes) == 8 - len(kept)
        layers = {name for names in groups.values() for name in names}
        left = [node.name for node in nodes if node.op_type == "MatMul" and node.name in layers]
        assert left == list(kept)


@pytest.mark.parametrize("kind", ["rope", "sinusoidal", "learned", "alibi"])
def test_products_are_found_by_layer(kind: str, make_bundle: MakeBundle) -> None:
    bundle = make_bundle(kind)
    architecture = Bundle(bundle).manifest.architecture
    for role in ("embed", "attend"):
        groups = layer_products(onnx.load(bundle / f"{role}.onnx").graph)
        assert len(groups) == 4 * architecture.layers
        first = 2 if kind == "alibi" else 1  # gated
        assert [len(names) for names in groups.values()] == [1, 1, first, 1] * architecture.layers


def test_a_target_out_of_reach_is_not_written(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_graphs, "common_neighbours", lambda *_: 0.5)
    monkeypatch.setattr(variant_graphs, "language_reference", language_reference)
    message = (
        r"--keep-nearest 0.9 is out of reach on cpu: 50.0% .* in int8, and 50.0% with all layers "
        r"in fp32; give at most 0.5, or leave --precision int8 out"
    )
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "out", "int8", keep_nearest=0.9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0, -1, 1.01, float("nan")])
def test_a_target_that_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"--keep-nearest .* above 0 and at most 1"):
        known_variants(["int8"], [], keep_nearest=share)


def test_int8_that_needs_texts_is_refused_without_a_tokenizer() -> None:
    with pytest.raises(ValueError, match=r"--keep-nearest needs a tokenizer; .* leave it out"):
        check_texts([("cpu", "int8")], None, keep_nearest=0.9)
    with pytest.raises(ValueError, match="is calibrated on texts and needs a tokenizer"):
        check_texts([("openvino", "int8")], None)
    check_texts([("cpu", "int8"), ("openvino", "fp32")], None)


def test_int8_is_not_judged_on_the_texts_of_its_calibration(texts: Path) -> None:
    with pytest.raises(ValueError, match=r"--texts and --calibration are both .*texts\.txt"):
        check_texts([("openvino", "int8")], "{}", texts, texts)
    check_texts([("cpu", "int8")], "{}", texts, texts)  # calibrates vectors alone


def test_options_without_their_condition_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="add --precision int8, or leave it out"):
        known_variants(["bf16"], [], keep_nearest=0.9)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "nncf" else found(name)
    )
    assert known_variants(["int8"], [], keep_nearest=0.9) == [("cpu", "int8")]
    with pytest.raises(BundleError, match=r"needs NNCF \(pip install '.\[int8\]'"):
        known_variants(["int8"], ["openvino"])
