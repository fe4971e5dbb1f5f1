"""Criteria and report of `python -m bench.gpu`: verdicts, and missing measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.attention_forms import VECTORS_ALONE, WHOLE_MAPS
from bench.gpu import report
from bench.gpu.criteria import FEWEST_COSINES, FEWEST_WHOLE, best_rate, criteria, milliseconds
from bench.gpu.field import BARE, ENGINE
from bench.gpu.peers import COMPILED, FUSED
from bench.gpu.served import ALONE, BATCHES, SERVED
from bench.gpu.sizes import BASE, MINILM, TRAINED
from bench.gpu.speed import DOCSTRINGS
from bench.serving.criteria import Criterion


def row(
    kind: str, length: int, ms: dict[str, float], cosine: float = 1.0, **more: Any
) -> dict[str, Any]:
    values = {
        "kind": kind,
        "length": length,
        "size": BASE,
        "precision": "fp16",
        "texts": 64,
        "batches": 1,
    }
    values |= {"tokens": 32768, "padding": 0.0, "flops": 6e12, "bytes": 1e9, "launch_ms": 0.5}
    times = {name: {"ms": value, "rounds": 5} for name, value in ms.items()}
    return values | {"times": times, "cosines": dict.fromkeys(ms, cosine)} | more


def parity_of(relative: float, least: float, gate: str = "") -> dict[str, Any]:
    outputs = {
        name: {"relative": relative, "absolute": relative}
        for name in ("pooled", "tokens", "hidden", "attention", "scores")
    }
    cosine = {"least": least, "mean": 1.0, "texts": FEWEST_COSINES}
    return {"forms": [], "outputs": outputs, "whole": FEWEST_WHOLE, "cosine": cosine, "gate": gate}


@pytest.fixture
def run() -> dict[str, Any]:
    """Return all results that the criteria read."""
    served = {
        SERVED: {BATCHES: {"texts_per_s": 900.0, "p50_ms": 1.0, "p99_ms": 2.0, "cpu_ms": 0.1}},
        ALONE: {"texts_per_s": 1000.0, "batch_tokens": 32768},
    }
    times = {VECTORS_ALONE: {"ms": 2.0}, WHOLE_MAPS: {"ms": 5.0}}
    return {
        "command": "python -m bench.gpu",
        "rehearsal": False,
        "seconds": 400.0,
        "device": {"name": "a GPU", "machine": "16 cores", "smi": "as found"},
        "ceilings": {"fp32": 50.0, "fp16": 800.0, "bf16": 790.0, "copy": 4000.0},
        "parity": {
            name: {
                "fp32": parity_of(1e-6, 1.0),
                "fp16": parity_of(1e-3, 0.99995),
                "bf16": parity_of(1e-2, 0.9996),
            }
            for name in TRAINED
        },
        "speed": [
            row(DOCSTRINGS, 32768, {ENGINE: 20.0, FUSED: 40.0, COMPILED: 22.0}),
            row(DOCSTRINGS, 8192, {ENGINE: 25.0, FUSED: 50.0, COMPILED: 30.0}),
            row("length", 512, {ENGINE: 15.0, BARE: 12.0}),
        ],
        "one short text": {
            "encoder": MINILM,
            "precisions": {"fp16": {"p50_ms": 0.8, "p99_ms": 1.0, "tokens": 14, "calls": 9}},
        },
        "attention": [
            {"size": MINILM, "precision": "fp16", "texts": 1, "length": 128, "times": times}
        ],
        "served": {
            "encoder": MINILM,
            "precision": "fp16",
            "flags": [],
            "group": 256,
            "measured": served,
            "failed": {},
        },
        "cut": {},
        "failed": {},
    }


def by_name(run: dict[str, Any]) -> dict[str, Criterion]:
    return {one.what: one for one in criteria(run)}


def test_criteria_use_the_best_result_of_each_contestant(run: dict[str, Any]) -> None:
    found: list[Any] = [(one.value, one.verdict) for one in criteria(run)]
    expected: list[Any] = [
        (1e-6, "reached"),
        (0.99995, "reached"),
        (0.9996, "reached"),
        (1.0, "reached"),
        (pytest.approx(1.1), "reached"),
        (pytest.approx(2.0), "reached"),
        (pytest.approx(0.5), "reached"),
        (pytest.approx(0.625), "reported"),
        (0.8, "reached"),
        (0.9, "reached"),
        (2.5, "reported"),
    ]
    assert found == expected


def test_missing_measurements_get_no_verdict(run: dict[str, Any]) -> None:
    bare = {
        name: run[name] for name in ("command", "rehearsal", "seconds", "device", "cut", "failed")
    }
    assert {one.verdict for one in criteria(bare)} == {"not measured"}
    text = "\n".join(report.lines(bare))
    assert "| not measured |" in text
    assert "| reached |" not in text


def test_one_model_is_not_enough_for_parity(run: dict[str, Any]) -> None:
    run["parity"][TRAINED[1]]["fp16"] = {"error": "no graph"}
    found = by_name(run)
    assert found["parity in fp16: least cosine of pooled vectors"].verdict == "not measured"
    assert found["share of start-up gates passed, in each precision"].verdict == "not measured"
    assert found["parity in bf16: least cosine of pooled vectors"].verdict == "reached"


def test_a_few_texts_are_not_enough_for_parity(run: dict[str, Any]) -> None:
    run["parity"][TRAINED[0]]["fp16"]["cosine"]["texts"] = FEWEST_COSINES - 1
    run["parity"][TRAINED[1]]["fp32"]["whole"] = FEWEST_WHOLE - 1
    verdicts = {
        name: one.verdict for name, one in by_name(run).items() if name.startswith("parity")
    }
    assert list(verdicts.values()) == ["not measured", "not measured", "reached"]
    [line] = [one for one in report.parity_tables(run) if one.startswith(f"| {TRAINED[0]} | fp16")]
    assert f"| {FEWEST_WHOLE} |" in line
    assert f"| {FEWEST_COSINES - 1} |" in line


def test_a_refused_start_up_check_misses_the_criterion(run: dict[str, Any]) -> None:
    run["parity"][TRAINED[0]]["bf16"]["gate"] = "BundleError: off"
    one = by_name(run)["share of start-up gates passed, in each precision"]
    assert one.value == pytest.approx(5 / 6)
    assert one.verdict == "**missed**"


@pytest.mark.parametrize("cosine", [0.9, -1.0])
def test_speed_of_wrong_results_does_not_count(cosine: float) -> None:
    wrong = row(DOCSTRINGS, 32768, {ENGINE: 20.0}, cosine)
    assert milliseconds(wrong, ENGINE) is None
    assert best_rate([wrong], ENGINE) is None
    assert f"not measured: cosine {cosine:.4f}" in "\n".join(
        report.speed_table([wrong], {}, "fp16")
    )


def test_results_of_another_encoder_do_not_count_for_minilm(run: dict[str, Any]) -> None:
    run["served"]["encoder"] = run["one short text"]["encoder"] = "tiny"
    unknown = [one.what for one in criteria(run) if one.verdict == "not measured"]
    assert all(what.startswith(MINILM) for what in unknown)
    assert len(unknown) == 2


def test_a_rehearsal_is_labelled_and_has_no_verdicts(run: dict[str, Any]) -> None:
    run["rehearsal"] = True
    lines = report.lines(run)
    assert lines[0] == "# A rehearsal on a CPU"
    assert "say nothing of a GPU" in lines[2]
    assert not any("| reached |" in line or "missed" in line for line in lines)


def test_skipped_and_failed_measurements_are_listed(run: dict[str, Any]) -> None:
    run["cut"], run["failed"] = {"speed": ["bert-large in fp32"]}, {"served": "Failed: no port"}
    text = "\n".join(report.lines(run))
    assert "- speed: there was no time for bert-large in fp32" in text
    assert "- served: Failed: no port" in text


def test_infinity_and_nan_are_written_by_name(run: dict[str, Any], tmp_path: Path) -> None:
    run["parity"][TRAINED[0]]["fp32"] = parity_of(float("inf"), float("nan"))
    report.write(run, tmp_path)
    text = (tmp_path / "gpu.json").read_text(encoding="utf-8")
    one = json.loads(text, parse_constant=pytest.fail)["parity"][TRAINED[0]]["fp32"]
    assert (one["outputs"]["pooled"]["relative"], one["cosine"]["least"]) == ("inf", "nan")
    assert (
        by_name(run)["parity in fp32, every output: largest relative distance"].verdict
        == "**missed**"
    )


def test_the_report_shows_a_picture_only_if_one_was_drawn(
    run: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "bench.serving.plots", None)
        report.draw(run, tmp_path)
    text = "\n".join(report.lines(run))
    assert "gpu.png" not in text
    assert "- picture: ModuleNotFoundError" in text
    report.draw(run, tmp_path)
    assert (tmp_path / report.PICTURE).is_file()
    assert "](gpu.png)" in "\n".join(report.lines(run))


def test_bf16_utilisation_uses_the_peak_of_its_product_type(
    run: dict[str, Any],
) -> None:
    rows = [
        row("length", 512, {ENGINE: 300.0}, precision=precision) for precision in ("bf16", "fp16")
    ]
    lines = "\n".join(report.speed_tables(run | {"speed": rows}))
    bf16, fp16 = lines.split("### ")[1:]
    assert "weights in bf16, products in fp32" in bf16
    assert "engine: of the peak in fp32 " in bf16
    assert "| 40.0% |" in bf16  # of 50 TFLOP/s
    assert "products in" not in fp16
    assert "| 2.5% |" in fp16


def test_launch_overhead_is_blank_where_it_was_not_measured(run: dict[str, Any]) -> None:
    rows = [row("length", 512, {ENGINE: 15.0}, launch_ms=value) for value in (None, 0.5)]
    lines = report.speed_table(rows, run["ceilings"], "fp16")
    assert lines[-2].endswith("|  |")
    assert lines[-1].endswith("| 0.500 |")
