"""The start-up self-test.

Outputs beyond whole maps and whole texts are compared with PyTorch, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headlight.errors import BundleError
from headlight.runtime import EncodeItem, ItemResult, Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.parity.golden_inputs import load_golden
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
        Runtime(make_bundle(kind), provider=provider, precision=precision, threads=1).check_golden()


@pytest.mark.parametrize("name", FAULTS)
def test_a_graph_with_a_single_fault_is_refused(name: str, copy: Path) -> None:
    fault = FAULTS[name]
    change_graph(copy, fault.role, fault.apply)
    found = (
        rf"^{fault.role}\.onnx: golden {fault.found_as} is off by .* on cpu/fp32, tolerance 1e-05"
    )
    with pytest.raises(BundleError, match=found):
        Runtime(copy, threads=1).check_golden()


def test_invalid_keys_have_infinite_distance(copy: Path) -> None:
    change_graph(copy, FAULTS["keys"].role, FAULTS["keys"].apply)
    with pytest.raises(BundleError, match="is off by inf on"):
        Runtime(copy, threads=1).check_golden()


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
        Runtime(copy, threads=1).check_golden()


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
