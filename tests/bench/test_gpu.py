"""What `python -m bench.gpu` decides by itself: time, turns, verdicts, and what the report says of what is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.attention import VECTORS_ALONE, WHOLE_MAPS
from bench.gpu import parity, report, results
from bench.gpu.bare import Bare, batch
from bench.gpu.budget import Allowance, Budget, Deadline
from bench.gpu.criteria import FEWEST_COSINES, FEWEST_WHOLE, best_rate, criteria, milliseconds
from bench.gpu.device import Device
from bench.gpu.field import BARE, ENGINE, Field
from bench.gpu.forms import FORMS, formed, operator_table
from bench.gpu.parity import cosine, distance
from bench.gpu.peers import COMPILED, FIXED, FUSED, UNMASKED, Compiled, NotMeasured, forward, peers, unmasked
from bench.gpu.prepare import Unprepared, require
from bench.gpu.served import ALONE, BATCHES, SERVED
from bench.gpu.sizes import BASE, MINILM, SIZES, TRAINED
from bench.gpu.speed import DOCSTRINGS, log_normal
from bench.gpu.turns import Timing, take_turns
from bench.serving.criteria import Criterion
from bench.serving.processes import ROOT
from headlight.runtime import EncodeItem, ItemResult, Runtime, Selection
from headlight.runtime.engine import pad
from tests.factory import sharpened, small_config


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_section_takes_its_share_and_what_it_leaves_is_for_those_behind_it() -> None:
    clock = Clock()
    budget = Budget(100, {"first": 1, "second": 1, "third": 2}, clock)
    with budget.section("first") as mine:
        assert mine.left == 25
        clock.now += 10
    with budget.section("second") as mine:
        assert mine.left == pytest.approx(30)  # a third of 90
        clock.now += 60
        assert mine.over
    with budget.section("third") as mine:
        assert mine.left == pytest.approx(30)
        assert mine.part(0.5).left == pytest.approx(15)


def test_an_allowance_is_spent_even_by_what_fails() -> None:
    clock = Clock()
    allowance, taken = Allowance(10, clock), list[float]()

    def fail() -> None:
        with allowance.spent(taken):
            clock.now += 4
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (allowance.left, taken) == (6, [4])


def test_a_contestant_that_fails_is_out_and_the_others_go_on() -> None:
    runs = {"sound": 0, "broken": 0}

    def run(name: str) -> None:
        runs[name] += 1
        if name == "broken":
            raise ValueError("no\nkernel")

    found = take_turns({name: lambda name=name: run(name) for name in runs}, Deadline(60, rounds=3))  # type: ignore[misc]
    assert found["broken"] == Timing(None, error="ValueError: no kernel")
    assert found["sound"].rounds == 3
    assert found["sound"].ms is not None
    assert runs == {"sound": 5, "broken": 1}


def test_without_time_one_round_is_run_and_nothing_counts() -> None:
    runs: list[int] = []
    assert take_turns({"one": lambda: runs.append(1)}, Deadline(0)) == {"one": Timing(None)}
    assert len(runs) == 1


def test_a_second_round_counts_where_half_the_time_is_gone() -> None:
    clock = Clock()

    def slow() -> None:
        clock.now += 6

    assert take_turns({"one": slow}, Deadline(10, clock))["one"].rounds == 1


def test_compiling_is_not_begun_without_an_allowance_for_it() -> None:
    encoder = sharpened(small_config(layers=1))
    refused = Compiled(encoder, Device("cpu"), Allowance(1), "eager", expected=2)
    ids, mask = pad([np.array([3, 4, 5])] * 2)
    with pytest.raises(NotMeasured, match="1 s are left to compile in, 2 are expected"):
        refused(ids, mask)
    assert refused.seconds == {}


def test_peers_give_what_the_encoder_gives() -> None:
    encoder = sharpened(small_config())
    ids, mask = pad([np.array([3, 4, 5, 6]), np.array([7, 8])])
    whole = ids[:1], mask[:1]
    with torch.inference_mode():
        expected = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).pooled.numpy()
    for fused in (False, True):
        np.testing.assert_allclose(forward(encoder, Device("cpu"), fused=fused)(ids, mask), expected, atol=1e-5)
    np.testing.assert_allclose(forward(unmasked(encoder), Device("cpu"), fused=True)(*whole), expected[:1], atol=1e-5)


def test_compiled_peers_give_what_the_encoder_gives() -> None:
    encoder = sharpened(small_config())
    ids, mask = pad([np.array([3, 4, 5, 6]), np.array([7, 8, 9, 10])])
    with torch.inference_mode():
        expected = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).pooled.numpy()
    found = peers(encoder, Device("cpu"), "bf16", Allowance(600), "eager", 0)
    for name in (COMPILED, FIXED):
        assert min(map(cosine, found[name](ids, mask), expected)) > 0.998, name


def test_each_encoder_is_compiled_however_many_were_before_it() -> None:
    """PyTorch's limit is 8."""
    compiled = list[str]()

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        compiled.append(precision)
        return graph.forward

    batches = [pad([np.array([3, 4, 5, 6])] * count) for count in (2, 1)]
    for precision in ("fp16", "bf16", "fp16"):
        found = peers(sharpened(small_config(layers=1)), Device("cpu"), precision, Allowance(600), backend, 0)  # type: ignore[arg-type]
        for batch_ in batches:
            found[COMPILED](*batch_)
        found[FIXED](*batches[0])
    assert compiled == ["fp16"] * 3 + ["bf16"] * 3 + ["fp16"] * 3


def test_the_first_run_of_each_shape_is_charged_to_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, encoder = Clock(), sharpened(small_config(layers=1))

    def run(*inputs: Any, **options: Any) -> Any:
        clock.now += 3
        return encoder(*inputs, **options)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: run)
    allowance = Allowance(8, clock)
    compiled = Compiled(encoder, Device("cpu"), allowance, "eager", expected=2)
    for length in (3, 3, 4):
        compiled(*pad([np.arange(3, 3 + length)] * 2))
    assert (compiled.seconds, allowance.left) == ({"batches": 6}, 2)
    with pytest.raises(NotMeasured):
        compiled(*pad([np.array([3, 4, 5])]))


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[4, 4]], {COMPILED, UNMASKED, FIXED}),
        ([[4, 3]], {COMPILED}),
        ([[5, 5]], {COMPILED, UNMASKED}),
        ([[4]], {COMPILED, UNMASKED}),
        ([[4, 4], [4, 4]], {COMPILED, UNMASKED}),
        ([[4, 4], [4, 3]], {COMPILED}),
    ],
)
def test_without_a_mask_only_batches_without_padding_are_run(batches: list[list[int]], expected: set[str]) -> None:
    everyone = dict.fromkeys((COMPILED, UNMASKED, FIXED))
    field = Field("", "fp16", None, None, everyone, None, Device("cpu"), chief=4)  # type: ignore[arg-type]
    padded = [pad([np.arange(3, 3 + length) for length in lengths]) for lengths in batches]
    assert set(field.peers(padded)) == expected


def test_every_form_is_the_same_encoder() -> None:
    encoder = sharpened(small_config())
    ids = torch.randint(5, 50, (2, 7))
    with torch.inference_mode():
        expected = encoder(ids).pooled.numpy()
        for form in FORMS:
            found = formed(encoder, form)(ids, torch.ones_like(ids), fused=form.fused).pooled.float().numpy()
            assert min(map(cosine, found, expected)) > (0.99999 if form.precision == "fp32" else 0.998), form.name


def test_the_operator_gives_weights_behind_the_softmax_on_this_provider() -> None:
    rows = {(row["precision"], row["masked"], row["gives"]): row for row in operator_table(Device("cpu"))}
    for masked in (False, True):
        assert rows["fp32", masked, "weights behind the softmax"]["maps"] < 1e-5
    assert rows["fp32", True, "plain operations: weights behind the softmax"]["context"] < 1e-5
    assert "error" in rows["bf16", False, "context alone"]  # not for CPUs


def test_a_bare_session_gives_the_engines_vectors(runtime: Runtime) -> None:
    device, texts = Device("cpu"), [np.array([3, 4, 5, 6]), np.array([7, 8])]
    session = Bare(runtime.bundle.file("embed.onnx"), device)
    bound = session.bind(*batch(device, *pad(texts), runtime.bundle.manifest.architecture.pooled_dim))
    assert np.isnan(bound.pooled()).all()
    session.run(bound)
    results = runtime.engine.run([EncodeItem(ids, Selection()) for ids in texts])
    for row, result in zip(bound.pooled(), results, strict=True):
        assert result.pooled is not None
        assert cosine(row, result.pooled) > 0.999999


def test_numbers_that_are_none_are_as_far_as_can_be() -> None:
    assert distance(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == (float("inf"), float("inf"))
    assert distance(np.array([1.0, 2.5]), np.array([1.0, 2.0])) == (0.25, 0.5)
    assert cosine(np.array([np.nan, 1]), np.array([1.0, 1.0])) == -1


def test_without_time_no_batch_is_computed_behind_the_first(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> None:
    monkeypatch.setattr(parity, "BATCH_TOKENS", 8)
    texts, batches = [np.arange(3, 11)] * 5, list[int]()
    run = runtime.engine.run

    def counted(items: list[EncodeItem]) -> list[ItemResult]:
        batches.append(len(items))
        return run(items)

    monkeypatch.setattr(runtime.engine, "run", counted)
    exact = sharpened(small_config())
    assert parity.cosines(runtime, exact, texts, Device("cpu"), Deadline(0))["texts"] == 1
    assert batches == [1]
    assert parity.cosines(runtime, exact, texts, Device("cpu"), Deadline(60))["texts"] == 5


def test_a_mix_has_the_tokens_of_its_batches_and_no_text_too_long() -> None:
    lengths = log_normal(1000, 512)
    assert 4000 <= sum(lengths) < 4000 + 512
    assert min(lengths) >= 4
    assert max(lengths) <= 512


def test_missing_bundles_are_told_with_the_remedy(tmp_path: Any) -> None:
    with pytest.raises(Unprepared, match=r"lacks minilm: run `python -m bench\.gpu prepare`"):
        require(tmp_path, [MINILM])


def row(kind: str, length: int, ms: dict[str, float], cosine: float = 1.0, **more: Any) -> dict[str, Any]:
    values = {"kind": kind, "length": length, "size": BASE, "precision": "fp16", "texts": 64, "batches": 1}
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
    """All that the criteria look at."""
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
            name: {"fp32": parity_of(1e-6, 1.0), "fp16": parity_of(1e-3, 0.99995), "bf16": parity_of(1e-2, 0.9996)}
            for name in TRAINED
        },
        "operator": [],
        "speed": [
            row(DOCSTRINGS, 32768, {ENGINE: 20.0, FUSED: 40.0, COMPILED: 22.0}),
            row(DOCSTRINGS, 8192, {ENGINE: 25.0, FUSED: 50.0, COMPILED: 30.0}),
            row("length", 512, {ENGINE: 15.0, BARE: 12.0}),
        ],
        "one short text": {
            "encoder": MINILM,
            "precisions": {"fp16": {"p50_ms": 0.8, "p99_ms": 1.0, "tokens": 14, "calls": 9}},
        },
        "attention": [{"size": MINILM, "precision": "fp16", "texts": 1, "length": 128, "times": times}],
        "served": {"encoder": MINILM, "precision": "fp16", "flags": [], "group": 256, "measured": served, "failed": {}},
        "cut": {},
        "failed": {},
    }


def by_name(run: dict[str, Any]) -> dict[str, Criterion]:
    return {one.what: one for one in criteria(run)}


def test_criteria_take_each_contestants_best(run: dict[str, Any]) -> None:
    found: list[Any] = [(one.found, one.verdict) for one in criteria(run)]
    expected: list[Any] = [
        (1e-6, "reached"),
        (0.99995, "reached"),
        (0.9996, "reached"),
        (1.0, "reached"),
        (pytest.approx(1.1), "reached"),
        (pytest.approx(2.0), "reached"),
        (pytest.approx(0.5), "reached"),
        (pytest.approx(0.625), "told"),
        (0.8, "reached"),
        (0.9, "reached"),
        (2.5, "told"),
    ]
    assert found == expected


def test_nothing_is_made_up_for_what_was_not_measured(run: dict[str, Any]) -> None:
    bare = {name: run[name] for name in ("command", "rehearsal", "seconds", "device", "cut", "failed")}
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
    verdicts = {name: one.verdict for name, one in by_name(run).items() if name.startswith("parity")}
    assert list(verdicts.values()) == ["not measured", "not measured", "reached"]
    [line] = [one for one in report.parity_tables(run) if one.startswith(f"| {TRAINED[0]} | fp16")]
    assert f"| {FEWEST_WHOLE} |" in line
    assert f"| {FEWEST_COSINES - 1} |" in line


def test_a_gate_that_refuses_is_a_miss(run: dict[str, Any]) -> None:
    run["parity"][TRAINED[0]]["bf16"]["gate"] = "BundleError: off"
    one = by_name(run)["share of start-up gates passed, in each precision"]
    assert one.found == pytest.approx(5 / 6)
    assert one.verdict == "**missed**"


@pytest.mark.parametrize("cosine", [0.9, -1.0])
def test_fast_and_wrong_is_not_fast(cosine: float) -> None:
    wrong = row(DOCSTRINGS, 32768, {ENGINE: 20.0}, cosine)
    assert milliseconds(wrong, ENGINE) is None
    assert best_rate([wrong], ENGINE) is None
    assert f"not measured: cosine {cosine:.4f}" in "\n".join(report.speed_table([wrong], {}, "fp16"))


def test_another_encoder_says_nothing_of_minilm(run: dict[str, Any]) -> None:
    run["served"]["encoder"] = run["one short text"]["encoder"] = "tiny"
    unknown = [one.what for one in criteria(run) if one.verdict == "not measured"]
    assert all(what.startswith(MINILM) for what in unknown)
    assert len(unknown) == 2


def test_a_rehearsal_says_so_and_has_no_verdicts(run: dict[str, Any]) -> None:
    run["rehearsal"] = True
    lines = report.lines(run)
    assert lines[0] == "# A rehearsal on a CPU"
    assert "say nothing of a GPU" in lines[2]
    assert not any("| reached |" in line or "missed" in line for line in lines)


def test_what_was_cut_or_failed_is_listed(run: dict[str, Any]) -> None:
    run["cut"], run["failed"] = {"speed": ["bert-large in fp32"]}, {"served": "Failed: no port"}
    text = "\n".join(report.lines(run))
    assert "- speed: there was no time for bert-large in fp32" in text
    assert "- served: Failed: no port" in text


def test_numbers_that_json_has_not_are_written_as_their_names(run: dict[str, Any], tmp_path: Path) -> None:
    run["parity"][TRAINED[0]]["fp32"] = parity_of(float("inf"), float("nan"))
    results.write(run, tmp_path)
    text = (tmp_path / "gpu.json").read_text(encoding="utf-8")
    one = json.loads(text, parse_constant=pytest.fail)["parity"][TRAINED[0]]["fp32"]
    assert (one["outputs"]["pooled"]["relative"], one["cosine"]["least"]) == ("inf", "nan")
    assert by_name(run)["parity in fp32, every output: largest relative distance"].verdict == "**missed**"


def test_the_report_shows_a_picture_only_where_one_was_drawn(
    run: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "bench.gpu.plots", None)
        without.delattr("bench.gpu.plots", raising=False)
        results.draw(run, tmp_path)
    text = "\n".join(report.lines(run))
    assert "gpu.png" not in text
    assert "- picture: ModuleNotFoundError" in text
    results.draw(run, tmp_path)
    assert (tmp_path / results.PICTURE).is_file()
    assert "](gpu.png)" in "\n".join(report.lines(run))


# A child that does not heed SIGTERM and holds the standard output: who reads that to its end has seen the child's.
HANGING = """
import subprocess, sys, threading
from bench.gpu import watchdog
child = "import signal; signal.alarm(50); signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
with watchdog.watchdog(60):
    pass
subprocess.Popen([sys.executable, "-c", child])
watchdog.STOP_SECONDS = 1
with watchdog.watchdog(1):
    threading.Event().wait()
"""


def test_a_run_that_hangs_is_ended_with_the_processes_it_began() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING], cwd=ROOT, capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 1
    assert "most recent call first" in done.stderr
    assert done.stderr.endswith("ended: not done after 1 s; what was measured is written\n")


def test_sizes_are_those_of_their_names() -> None:
    shapes = {name: (config.layers, config.dim) for name, config in SIZES.items()}
    assert shapes == {"minilm": (6, 384), "bert-base": (12, 768), "bert-large": (24, 1024), "tiny": (2, 32)}
