import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import BundleError, InvalidInput
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.engine.batches import BATCH_SQUARES, BATCH_TOKENS, plan
from tests.tampering import relist


def test_results_come_in_the_order_of_the_inputs(runtime: Runtime) -> None:
    texts = ["a long text with many letters", "b", "middling one", "b"]
    together = [result.pooled for result in runtime.encode_items(texts)]
    alone = [runtime.encode_items([text])[0].pooled for text in texts]
    np.testing.assert_allclose(np.stack(together), np.stack(alone), atol=1e-6)  # type: ignore[arg-type]


def test_a_text_and_its_ids_give_equal_results(runtime: Runtime) -> None:
    assert runtime.tokenizer is not None
    ids = runtime.tokenizer.encode("some text").ids.tolist()
    text, given_ids = runtime.encode_items(["some text", ids])
    np.testing.assert_array_equal(text.pooled, given_ids.pooled)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["fine", ""], r"^inputs\[1\].text: is empty"),
        (["x" * 500], r"^inputs\[0\].text: has 502 tokens, the model takes 160"),
        ([[]], r"^inputs\[0\].ids: has 0 ids; give 1 to 160"),
        ([[1] * 161], r"^inputs\[0\].ids: has 161 ids"),
        ([[3, -1]], r"^inputs\[0\].ids: the id at 1 is not in 0 \.\. "),
        ([[10**6]], r"^inputs\[0\].ids: the id at 0 is not in"),
        ([[2**63]], r"^inputs\[0\].ids: holds something that is not a 64-bit integer"),
    ],
)
def test_bad_input_is_named_by_its_index(runtime: Runtime, inputs: list, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InvalidInput, match=message):
        runtime.encode_items(inputs)


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        (
            np.ones((3, 3), np.float32),
            r"has the shape \(3, 3\); this model has 2 layers of 3 heads",
        ),
        (np.full((2, 3), np.nan, np.float32), "has a value outside 0 to 1"),
        ([["1"] * 3] * 2, "must hold numbers alone"),
    ],
)
def test_an_invalid_head_mask_is_refused(runtime: Runtime, mask: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^head_mask: {problem}"):
        runtime.encode_items(["a"], head_mask=mask)


@pytest.mark.parametrize("mask", [np.array([[1, 0, 1], [1, 1, 0.5]]), [[1, 0, 1], [1, 1, 0.5]]])
def test_a_head_mask_may_be_of_any_numbers(runtime: Runtime, mask: Any) -> None:
    [got] = runtime.encode_items(["a"], head_mask=mask)
    [expected] = runtime.encode_items(["a"], head_mask=np.asarray(mask, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(got.pooled), np.asarray(expected.pooled))


@given(st.lists(st.integers(1, 3000), max_size=80), st.booleans())
def test_a_plan_contains_every_input_once_within_its_budget(
    lengths: list[int], squared: bool
) -> None:
    batches = plan(lengths, squared=squared)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        cost = len(batch) * longest * (longest if squared else 1)
        assert len(batch) == 1 or cost <= (BATCH_SQUARES if squared else BATCH_TOKENS)


def test_a_missing_provider_or_precision_is_refused_with_the_available_ones(
    bundle_path: Path,
) -> None:
    with pytest.raises(
        BundleError, match="provider 'tpu' is not available; available are auto, cpu"
    ):
        Runtime(bundle_path, provider="tpu")
    with pytest.raises(
        BundleError,
        match=(
            "no embed graph for cpu/int8; the bundle has cpu/fp32, cuda/fp32, "
            "openvino/bf16, openvino/fp32"
        ),
    ):
        Runtime(bundle_path, precision="int8")


def test_a_probe_detects_other_numbers_without_the_bundle_files(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(copy, threads=1)
    runtime.check_golden()
    shutil.rmtree(copy)
    runtime.probe()
    run = runtime.engine.run

    def ill(items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        return [
            each
            if item.role == "embed" or "tokens" not in each
            else ItemResult(each, tokens=each["tokens"] * np.float32(1.1))
            for item, each in zip(items, run(items, wide=wide), strict=True)
        ]

    monkeypatch.setattr(runtime.engine, "run", ill)
    with pytest.raises(BundleError, match=r"^attend\.onnx: golden tokens is off by"):
        runtime.probe()


def test_warm_up_clips_lengths_to_the_model(runtime: Runtime) -> None:
    runtime.warm_up([1, 10**9])


def test_non_finite_weights_are_refused_at_start(copy: Path) -> None:
    weights = np.fromfile(copy / "weights.bin", dtype=np.float32)
    np.full_like(weights, np.nan).tofile(copy / "weights.bin")
    relist(copy, "weights.bin")
    with pytest.raises(BundleError, match=r"^embed\.fused\.onnx: cannot run the golden inputs"):
        Runtime(copy, threads=1)


def test_a_graph_that_onnx_runtime_cannot_open_is_named(copy: Path) -> None:
    model = onnx.load(copy / "attend.onnx", load_external_data=False)
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, copy / "attend.onnx")
    relist(copy, "attend.onnx")
    with pytest.raises(BundleError, match=r"^attend\.onnx: cannot be opened on provider cpu"):
        Runtime(copy, threads=1)


@pytest.mark.parametrize("kind", ["empty", "incomplete"])
def test_golden_inputs_that_prove_nothing_are_refused(copy: Path, kind: str) -> None:
    arrays: dict[str, Any] = {"ids_0": np.array([1, 2])} if kind == "incomplete" else {}
    np.savez(copy / "golden.npz", **arrays)
    relist(copy, "golden.npz")
    with pytest.raises(BundleError, match=r"^golden\.npz: "):
        Runtime(copy, threads=1)
