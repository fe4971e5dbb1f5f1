"""Declarations of reduced precisions in the manifest, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from headlight.errors import BundleError
from headlight.outputs.registry import MEASURED
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight_export.parity.parity_report import Row
from headlight_export.precision import graph_files, variants
from headlight_export.precision.conversion import PRECISIONS, convert
from headlight_export.precision.variant_options import usable_precisions
from headlight_service.app.assembly import load
from headlight_service.config.options import Config
from tests.conftest import MakeBundle
from tests.export.conftest import Export
from tests.tampering import relist, rewrite, set_value


def test_a_missing_precision_is_named_and_none_is_substituted(
    bundle_path: Path, make_variants: MakeBundle
) -> None:
    assert Runtime(make_variants("rope"), threads=1).precision == "fp32"
    with pytest.raises(
        BundleError,
        match=(
            r"no embed graph for cpu/int8; the bundle has cpu/fp32, cuda/fp32, openvino/bf16, "
            r"openvino/fp32$"
        ),
    ):
        Runtime(bundle_path, precision="int8")
    with pytest.raises(
        BundleError,
        match=(
            "has cpu/bf16, cpu/fp16, cpu/fp32, cpu/int8, cuda/bf16, cuda/fp16, cuda/fp32, "
            "openvino/bf16, openvino/fp32"
        ),
    ):
        Runtime(make_variants("rope"), precision="int4")
    served = load(Config(bundle=make_variants("rope"), precision="int8"))
    assert served.precision == "int8"


def test_the_service_does_not_start_outside_the_declared_tolerance(copied: Path) -> None:
    def tighten(manifest: dict[str, Any]) -> None:
        for tolerance in manifest["tolerances"]:
            if tolerance["precision"] == "int8":
                tolerance["attention"] = 1e-9

    rewrite(copied, tighten)
    with pytest.raises(
        BundleError,
        match=r"attend.int8.onnx: golden attention is off by .* on cpu/int8",
    ):
        load(Config(bundle=copied, precision="int8"))
    load(Config(bundle=copied))  # fp32 has a tolerance of its own


def test_damaged_int8_weights_fail_the_self_test_though_all_digests_match(copied: Path) -> None:
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
    """The faults: scales of 0, and scales that are not finite."""

    def broken(value: float) -> Callable[..., None]:
        def wrong(model: onnx.ModelProto, *others: Any, **options: Any) -> None:
            convert(model, *others, **options)
            for tensor in model.graph.initializer:
                if tensor.name.endswith(".scales"):
                    numbers = np.full_like(numpy_helper.to_array(tensor), value)
                    tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))

        return wrong

    for value, problem in ((0.0, "whose cosine with fp32 is"), (float("nan"), "not finite")):
        monkeypatch.setattr(graph_files, "convert", broken(value))
        with pytest.raises(ValueError, match=f"--precision int8 gives .*{problem}.*leave it out"):
            export(tmp_path / "out", "int8")
        assert list(tmp_path.iterdir()) == []


def test_report_and_manifest_show_the_quality_of_each_precision(make_variants: MakeBundle) -> None:
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
            assert manifest.tolerance(provider, precision).limits["pooled"] < 1


def test_a_provider_is_measured_as_a_precision_is(export: Export, tmp_path: Path) -> None:
    found = export(tmp_path / "out", providers=["openvino"])
    manifest = Bundle(tmp_path / "out").manifest
    measured = [("openvino", precision) for precision in usable_precisions("openvino")]
    assert [(each.provider, each.precision) for each in manifest.quality] == [
        ("cpu", "fp32"),
        *measured,
    ]
    assert {(row.provider, row.precision) for row in found.variants} == set(measured)
    assert all(row.passed for row in found.variants)
    # fp32 has the tolerance of PyTorch's own error with every provider
    assert (
        manifest.tolerance("openvino", "fp32").limits["pooled"]
        == manifest.tolerance("cpu", "fp32").limits["pooled"]
    )
    assert manifest.quality[1].batch_drift <= 1e-6
    for provider, precision in measured:
        load(Config(bundle=tmp_path / "out", provider=provider, precision=precision))


def test_an_inexact_fp32_provider_does_not_widen_the_tolerance(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("alone", (1,), 0, output, "openvino", "fp32", 3e-3, 1e-5) for output in MEASURED]
    monkeypatch.setattr(variants, "measure", lambda *_: rows)
    with pytest.raises(
        ValueError, match=r"--provider openvino \(fp32\) is off by 0.003 in pooled, tolerance 1e-05"
    ):
        export(tmp_path / "out", providers=["openvino"])
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_without_precisions_is_unchanged(bundle_path: Path) -> None:
    manifest = Bundle(bundle_path).manifest
    assert manifest.variants == (
        ("cpu", "fp32"),
        ("cuda", "fp32"),
        ("openvino", "bf16"),
        ("openvino", "fp32"),
    )
    assert manifest.quality == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [("cosine_mean", "1"), ("cosine_min", -3.0), ("count", 0), ("texts", ""), ("real_text", 1)],
)
def test_an_invalid_quality_is_refused(copied: Path, key: str, value: object) -> None:
    set_value(copied, f"quality.1.{key}", value)
    with pytest.raises(BundleError, match=rf"quality\[1\]\.{key} is"):
        Bundle(copied)
