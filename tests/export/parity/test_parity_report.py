"""Parity checks of the exporter beyond whole maps of whole texts, and their memory use."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import onnx
import pytest

from headlight.outputs.maps.derived_forms import FORMS
from headlight_export.parity import reference as module
from headlight_export.parity.parity_report import cases
from headlight_export.parity.reference import Reference
from headlight_export.writer import fp32_parts
from headlight_export.writer.bundle_writer import ParityError, export_checkpoint
from tests.conftest import MakeBundle
from tests.factory import kind_config, sharpened
from tests.wrong_graphs import FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_a_graph_with_a_single_fault_is_not_written(
    name: str,
    make_bundle: MakeBundle,
    make_checkpoint: MakeBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault, traced = FAULTS[name], make_bundle("prompted")

    def graph(role: str) -> onnx.ModelProto:
        model = onnx.load(traced / f"{role}.onnx")
        if role == fault.role:
            fault.apply(model.graph)
        return model

    monkeypatch.setattr(fp32_parts, "trace", lambda _: graph("attend"))
    monkeypatch.setattr(fp32_parts, "vectors_alone", lambda _: graph("embed"))
    with pytest.raises(ParityError) as caught:
        export_checkpoint(make_checkpoint("prompted"), tmp_path / "out")
    assert {row.case for row in caught.value.result.rows if not row.passed} == {fault.case}
    assert list(tmp_path.iterdir()) == []


def test_forms_and_masks_are_reported(make_bundle: MakeBundle) -> None:
    rows = json.loads((make_bundle("prompted") / "parity.json").read_text())["rows"]
    by_case: dict[str, set[str]] = {}
    for row in rows:
        by_case.setdefault(row["case"], set()).add(row["output"])
    assert {name: by_case[name] for name in FORMS} == {name: {"attention"} for name in FORMS}
    every = {"pooled", "tokens", "attention", "hidden"}
    assert by_case["token hidden"] == by_case["prompt left out"] == every


def test_prompts_are_not_excluded_in_models_that_pool_them() -> None:
    assert "prompt left out" not in {case.name for case in cases(kind_config("rope"))}


def test_the_float64_encoder_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold twice the bytes of the model during the whole export."""
    made: list[weakref.ref[Any]] = []

    def recorded(encoder: Any) -> Any:
        found = copy.deepcopy(encoder)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(module, "copy", type("copy", (), {"deepcopy": staticmethod(recorded)}))
    reference = Reference(sharpened(kind_config("learned")))
    reference.own_error(1)
    gc.collect()
    assert [each() for each in made] == [None]
