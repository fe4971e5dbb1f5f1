"""The start-up self-test.

Outputs beyond whole maps and whole texts are compared with PyTorch, too.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from headlight.errors import BundleError
from headlight.runtime import EncodeItem, ItemResult, Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.parity.golden_inputs import SHORT_TOKENS, load_golden, short_inputs
from headlight.runtime.providers.onnx_session import OnnxSession
from headlight_export.precision.variant_options import usable_precisions
from tests.conftest import MakeBundle
from tests.tampering import change_golden, relist
from tests.wrong_graphs import FAULTS, change_graph


@pytest.fixture
def copy(make_bundle: MakeBundle, tmp_path: Path) -> Path:
    """Copy a bundle of a model that does not pool its prompts."""
    return Path(shutil.copytree(make_bundle("prompted"), tmp_path / "bundle"))


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
@pytest.mark.parametrize("kind", ["prompted", "causal", "learned"])
def test_a_correct_bundle_passes(kind: str, provider: str, make_bundle: MakeBundle) -> None:
    for precision in usable_precisions(provider):
        runtime = Runtime(make_bundle(kind), provider=provider, precision=precision, threads=1)
        runtime.check_golden()


@pytest.mark.parametrize("name", FAULTS)
def test_a_graph_with_a_single_fault_is_not_opened(name: str, copy: Path) -> None:
    fault = FAULTS[name]
    change_graph(copy, fault.role, fault.apply)
    found = (
        rf"^{fault.role}\.onnx: golden {fault.found_as} is off by .* on cpu/fp32, tolerance 1e-05; "
        rf"installed: onnxruntime {onnxruntime.__version__}, numpy {np.__version__}; "
        r"tested: onnxruntime >=1\.31,<\S+, numpy >="
    )
    with pytest.raises(BundleError, match=found):
        Runtime(copy, threads=1)


def test_only_a_named_argument_opens_what_is_not_verified(copy: Path) -> None:
    change_graph(copy, FAULTS["prompts"].role, FAULTS["prompts"].apply)
    unverified = Runtime(copy, threads=1, self_test=False)
    with pytest.raises(BundleError, match="with a prompt left out is off"):
        unverified.check_golden()


@pytest.mark.parametrize("attend", [False, True])
def test_the_session_of_exclusive_batches_is_verified(
    attend: bool, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = OnnxSession.run

    def wrong_if_exclusive(self: OnnxSession, *arguments: Any, wide: bool = False) -> Any:
        with run(self, *arguments, wide=wide) as outputs:
            factors = {np.dtype(np.float32): np.float32(1.5)} if wide else {}
            found = {key: each * factors.get(each.dtype, 1) for key, each in outputs.items()}
            return contextlib.nullcontext(found)

    monkeypatch.setattr(OnnxSession, "run", wrong_if_exclusive)
    Runtime(copy, threads=1, streams=2, wide=False, attend=attend)
    with pytest.raises(BundleError, match=r"golden \w+ is off by"):
        Runtime(copy, threads=1, streams=2, wide=True, attend=attend)


def test_long_golden_inputs_are_left_to_the_service(copy: Path) -> None:
    """But if there are no others, the shortest is run."""
    golden = load_golden(Bundle(copy))
    assert short_inputs(golden) == golden
    long = golden[3]._replace(ids=np.zeros(SHORT_TOKENS + 1, dtype=np.int64))
    assert short_inputs((long, golden[1])) == (golden[1],)
    assert short_inputs((long, long._replace(ids=np.zeros(99, dtype=np.int64)))) == (long,)


def test_a_bundle_of_an_earlier_version_is_served(copy: Path) -> None:
    """It has no partly masked inputs."""
    with np.load(copy / "golden.npz") as golden:
        arrays = {name: golden[name] for name in golden.files if not name.startswith("masked_")}
        assert len(arrays) < len(golden.files)
    np.savez(copy / "golden.npz", **arrays)
    relist(copy, "golden.npz")
    Runtime(copy, threads=1).check_golden()
    assert [one.about for one in load_golden(Bundle(copy))] == [""] * 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("masked_occluded_0", 17),
        ("masked_occluded_0", -1),
        ("masked_left_out_1", 17),
        ("masked_left_out_1", 0.5),
    ],
)
def test_an_impossible_masked_input_is_refused(name: str, value: float, copy: Path) -> None:
    change_golden(copy, name, lambda _: np.array(value))
    with pytest.raises(BundleError, match=r"^golden\.npz: .* of masked_\*_[01]"):
        Runtime(copy, threads=1)


def test_a_probe_requests_only_vectors_of_whole_texts(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, ran = Runtime(copy, threads=1), list[EncodeItem]()
    run = runtime.engine.run

    def recorded(items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        ran.extend(items)
        return run(items, wide=wide)

    monkeypatch.setattr(runtime.engine, "run", recorded)
    runtime.check_golden()
    assert (
        {bool(item.occluded) for item in ran}
        == {item.left_out > 0 for item in ran}
        == {True, False}
    )
    first = len(ran)
    runtime.probe()
    assert 0 < len(ran) - first < first
    assert all(not item.occluded and not item.left_out for item in ran[first:])
