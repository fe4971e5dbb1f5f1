"""OpenVINO in place of ONNX Runtime.

Equal answers, and a clear error if it cannot give them.
"""

from __future__ import annotations

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight import AttentionSpec
from headlight.errors import BundleError
from headlight.extras import remedy
from headlight.runtime import EncodeItem, ItemResult, Runtime, Selection
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers import openvino_session as ours
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.values import Floats
from headlight_export.precision.variant_options import usable_precisions
from tests.tampering import change_golden

LENGTHS = (5, 40, 2, 17, 33, 9)
SPECS = [
    AttentionSpec(),
    AttentionSpec(top_k=3),
    AttentionSpec(layers=(-1,), heads=(0,), top_k=2),
    AttentionSpec(reduce=("head_mean",)),
    AttentionSpec(queries=(0,)),
    AttentionSpec(scores=True, dtype="float32"),
]


@pytest.fixture(scope="module")
def openvino(bundle_path: Path) -> Runtime:
    return Runtime(bundle_path, provider="openvino", threads=1, streams=2, wide=True)


def items(lengths: tuple[int, ...]) -> list[EncodeItem]:
    random = np.random.default_rng(3)
    return [EncodeItem(random.integers(1, 90, size=n), Selection(tokens=True)) for n in lengths]


def pooled(result: ItemResult) -> Floats:
    assert result.pooled is not None
    return result.pooled


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_openvino_attention_matches_onnx_runtime(
    spec: AttentionSpec, runtime: Runtime, openvino: Runtime
) -> None:
    """For all layers, for one layer, and for empty selectors."""
    texts = ["join two paths", "a", "read lines of a file and close it"]
    expected, got = (
        each.encode_items(texts, attention=spec, tokens=True) for each in (runtime, openvino)
    )
    for a, b in zip(expected, got, strict=True):
        assert a.attention is not None
        assert b.attention is not None
        np.testing.assert_allclose(b.attention, a.attention, atol=4e-5, rtol=1e-4)
        np.testing.assert_allclose(pooled(b), pooled(a), atol=1e-5)
        if a.attention_indices is not None:
            np.testing.assert_array_equal(b.attention_indices, a.attention_indices)


def test_maps_of_a_single_text_are_written_into_their_buffer(
    runtime: Runtime, openvino: Runtime
) -> None:
    [a], [b] = (
        each.encode_items(["join two paths"], attention=AttentionSpec())
        for each in (runtime, openvino)
    )
    assert a.attention is not None
    assert b.attention is not None
    np.testing.assert_allclose(b.attention, a.attention, atol=4e-5)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=8))
@settings(max_examples=20)
def test_openvino_vectors_do_not_depend_on_the_batch(openvino: Runtime, lengths: list[int]) -> None:
    texts = items(tuple(lengths))
    for item, together in zip(texts, openvino.engine.run(texts), strict=True):
        [alone] = openvino.engine.run([item])
        assert np.abs(pooled(alone) - pooled(together)).max() <= 1e-6


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_vectors_do_not_depend_on_the_number_of_threads(provider: str, bundle_path: Path) -> None:
    runtime = Runtime(bundle_path, provider=provider, threads=1, streams=2, wide=True)
    texts = items(LENGTHS)
    for narrow, wide in zip(
        runtime.engine.run(texts), runtime.engine.run(texts, wide=True), strict=True
    ):
        np.testing.assert_allclose(pooled(wide), pooled(narrow), atol=1e-6)


def test_concurrent_calls_do_not_mix_results(openvino: Runtime) -> None:
    """More callers than requests: outputs of a request are its own until they are copied."""
    texts = items(tuple(range(1, 41)))
    expected = [pooled(openvino.engine.run([item])[0]) for item in texts]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            got = list(pool.map(lambda item: pooled(openvino.engine.run([item])[0]), texts))
            np.testing.assert_allclose(got, expected, atol=1e-6)


def test_results_outlast_the_next_batch(openvino: Runtime) -> None:
    first = openvino.engine.run(items((7,)))[0]
    kept = pooled(first).copy(), None if first.tokens is None else first.tokens.copy()
    for _ in range(4):
        openvino.engine.run(items((7, 12)))
    np.testing.assert_array_equal(pooled(first), kept[0])
    np.testing.assert_array_equal(first.tokens, kept[1])


@pytest.mark.skipif(
    "bf16" not in usable_precisions("openvino"), reason="this processor has no bfloat16"
)
def test_bfloat16_is_used_only_if_requested(bundle_path: Path, runtime: Runtime) -> None:
    texts = ["join two paths", "read lines of a file and close it"]
    exact = runtime.encode_items(texts)
    by_precision = {
        precision: Runtime(
            bundle_path, provider="openvino", precision=precision, threads=1
        ).encode_items(texts)
        for precision in ("fp32", "bf16")
    }
    for a, fp32, bf16 in zip(exact, by_precision["fp32"], by_precision["bf16"], strict=True):
        assert np.abs(pooled(fp32) - pooled(a)).max() <= 1e-5
        assert np.abs(pooled(bf16) - pooled(a)).max() > 1e-5
        assert pooled(bf16) @ pooled(a) > 0.999


def test_a_processor_without_bfloat16_is_reported(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {
        "OPTIMIZATION_CAPABILITIES": ["FP32", "INT8"],
        "FULL_DEVICE_NAME": "Old Processor",
    }
    monkeypatch.setattr(
        ours, "_core", lambda: SimpleNamespace(get_property=lambda _, name: properties[name])
    )
    with pytest.raises(BundleError, match="Old Processor has neither: use fp32"):
        Runtime(bundle_path, provider="openvino", precision="bf16")
    assert usable_precisions("openvino") == ("fp32",)


def test_a_library_that_computes_in_another_precision_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = SimpleNamespace(get_property=lambda _: SimpleNamespace(to_string=lambda: "f16"))
    model = SimpleNamespace(validate_nodes_and_infer_types=lambda: None)
    core = SimpleNamespace(
        get_property=lambda *_: ["BF16"],
        read_model=lambda _: model,
        compile_model=lambda *_: compiled,
    )
    monkeypatch.setattr(ours, "_core", lambda: core)
    with pytest.raises(BundleError, match="OpenVINO computes in f16 where bf16 was asked for"):
        ours.OpenVinoSession(OnnxGraph(b""), Workers(), "bf16")


def test_a_missing_openvino_package_is_reported_with_the_remedy(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.library.cache_clear()
    ours._core.cache_clear()
    monkeypatch.setitem(sys.modules, "openvino", None)
    try:
        with pytest.raises(BundleError, match=re.escape(remedy("openvino"))):
            Runtime(bundle_path, provider="openvino")
        assert Runtime(bundle_path, threads=1).provider == "cpu"
    finally:
        ours.library.cache_clear()
        ours._core.cache_clear()


def test_precisions_that_openvino_lacks_are_refused(bundle_path: Path) -> None:
    with pytest.raises(
        BundleError, match="provider openvino computes in fp32, bf16 or int8, not in fp16"
    ):
        Runtime(bundle_path, provider="openvino", precision="fp16")
    with pytest.raises(BundleError, match="no embed graph for openvino/int8; the bundle has"):
        Runtime(bundle_path, provider="openvino", precision="int8")


def test_the_self_test_compares_openvino_with_pytorch(bundle_path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bundle_path, tmp_path / "copy"))
    change_golden(copy, "pooled_0", lambda vector: vector + np.float32(1e-3))
    with pytest.raises(
        BundleError, match=r"golden pooled is off by .* on openvino/fp32, tolerance"
    ):
        Runtime(copy, provider="openvino", threads=1)


def test_openvino_telemetry_is_disabled(openvino: Runtime) -> None:
    """OpenVINO installs a telemetry package for its converters.

    It is not loaded, and cannot be.
    """
    assert openvino.provider == "openvino"
    assert sys.modules["openvino_telemetry"] is None
