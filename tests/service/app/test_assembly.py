"""Default limits of a service."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from headlight.runtime import Runtime
from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight.runtime.providers import provider_choice, worker_layout
from headlight_service.app import assembly
from headlight_service.app.assembly import assemble, limits, max_characters
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.request import Request
from headlight_service.core.scheduler.cpu_time import cpu_seconds_of_workers
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.contract.answer_forms import UnaryForm
from headlight_service.telemetry.metrics import Metrics
from tests.service.batching import fitted
from tests.service.fakes import ARCHITECTURE, manifest
from tests.service.logged import logged
from tests.tampering import relist, rewrite

MIB = 1 << 20


@pytest.mark.parametrize(
    ("layers", "heads", "length", "least", "most"),
    [
        (6, 12, 256, 64 * MIB, 64 * MIB),
        (8, 6, 2048, 768 * MIB, 800 * MIB),  # all outputs of a longest text
        (24, 16, 8192, 1024 * MIB, 1024 * MIB),  # which would be 96 GiB
        (28, 16, 32768, 1024 * MIB, 1024 * MIB),
    ],
)
def test_the_default_answer_limit_fits_the_process(
    layers: int, heads: int, length: int, least: int, most: int
) -> None:
    architecture = dataclasses.replace(ARCHITECTURE, layers=layers, heads=heads)
    described = manifest(architecture=architecture, max_length=length)
    config = Config(bundle=Path("b"))
    assert least <= limits(config, described).max_stream_output_bytes <= most
    told = dataclasses.replace(config, max_stream_output_bytes=5 << 30)
    assert limits(told, described).max_stream_output_bytes == 5 << 30


@pytest.mark.parametrize(
    "told",
    [
        {"max_stream_output_bytes": 1 << 16},
        {"max_unary_response_bytes": 1 << 30},
        {},
        {"max_output_bytes": 5 << 20},
    ],
)
def test_an_idle_service_has_room_for_the_largest_unary_answer(told: dict[str, int]) -> None:
    config = Config(bundle=Path("b"), **told)  # type: ignore[arg-type]  # all of these are numbers
    allowed = limits(config, manifest())
    admission = fitted(config, allowed)
    unary = RequestBudget(admission, WaitEstimate(1), "interactive")
    unary.take_answer(allowed.max_unary_response_bytes)
    assert admission.outputs.held == config.max_unary_response_bytes
    unary.close()
    stream = RequestBudget(admission, WaitEstimate(1), "interactive")
    stream.take_answer(allowed.max_stream_output_bytes)
    assert admission.outputs.held == allowed.max_stream_output_bytes
    stream.close()
    assert admission.outputs.held == 0


@pytest.mark.parametrize(
    ("provider", "gpu", "warned"), [("auto", True, 1), ("auto", False, 0), ("cpu", True, 0)]
)
def test_a_cpu_fallback_for_a_gpu_is_warned_of_once(
    provider: str,
    gpu: bool,
    warned: int,
    bundle_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(assembly, "gpu_installed", lambda: gpu)
    monkeypatch.setattr(provider_choice, "device_exists", lambda: False)
    with caplog.at_level(logging.WARNING, logger="headlight_service"):
        assert assembly.load(Config(bundle=bundle_path, provider=provider)).provider == "cpu"
    assert [vars(record)["event"] for record in logged(caplog)] == ["provider_fallback"] * warned


def test_a_service_leaves_numpy_one_thread(bundle_path: Path) -> None:
    with threadpool_limits(2, "blas"):
        assembly.load(Config(bundle=bundle_path, provider="cpu"))
        pools = [each for each in threadpool_info() if each["user_api"] == "blas"]
    assert pools
    assert {each["num_threads"] for each in pools} == {1}


def test_the_attend_graph_is_not_opened_without_attention(bundle_path: Path) -> None:
    runtime = assembly.load(Config(bundle=bundle_path, provider="cpu", attention="off"))
    assert runtime.graph_roles == {"embed"}


def test_a_single_text_on_the_attend_graph_is_counted_under_that_graph(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_layout, "SMALL_COPY", 0)
    runtime = Runtime(bundle_path, provider="cpu", threads=1, streams=2)
    assert runtime.workers.lent
    metrics, config = Metrics(), Config(bundle=bundle_path)
    model, models, tokenizers = (
        assemble(runtime, config, metrics, Executor(config, 2)),
        Models(),
        TokenizerThreads(1),
    )
    models.add(model)
    handle = Pipeline(models, tokenizers).submit(Request(["abc"]), UnaryForm(model.limits))
    handle.result()
    handle.close()
    model.scheduler.close()
    tokenizers.close()
    labels = {"model": runtime.bundle.manifest.name}
    assert metrics.registry.get_sample_value("headlight_attend_runs_total", labels) == 1
    sent = metrics.registry.get_sample_value(
        "headlight_output_bytes_total", labels | {"output": "attention"}
    )
    assert sent == 0


@pytest.mark.parametrize(
    ("provider", "worked"),
    [("cpu", cpu_seconds_of_workers), ("openvino", cpu_seconds_of_workers), ("cuda", None)],
)
def test_bulk_is_measured_in_cpu_time_on_cpu_providers(
    provider: str, worked: object, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "provider", provider)
    config = Config(bundle=Path("b"))
    model = assemble(runtime, config, Metrics(), Executor(config, 1))
    model.scheduler.close()
    assert model.scheduler._engines[model.key].engine.worked is worked


def test_a_dry_run_is_not_refused_for_its_answer_size(runtime: Runtime) -> None:
    class Huge:
        def overhead_bytes(self, *_: object) -> int:
            return 1 << 40

    config = Config(bundle=Path("b"))
    model, models, tokenizers = (
        assemble(runtime, config, Metrics(), Executor(config, 1)),
        Models(),
        TokenizerThreads(1),
    )
    models.add(model)
    pool = model.admission.outputs
    handle = Pipeline(models, tokenizers).submit(Request(["abc"], dry_run=True), Huge())
    assert handle.result().results == []
    assert pool.held == handle.answer_bytes == largest_output(pool.limit)
    handle.close()
    assert pool.held == 0
    model.scheduler.close()
    tokenizers.close()


LIMIT = TokenizerLimit(max_characters=50_000, worst="tabs")


@pytest.mark.parametrize(
    ("asked", "limit", "held"),
    [
        (None, None, 64 * 2000),
        (None, LIMIT, 50_000),
        (60_000, LIMIT, 50_000),
        (40_000, LIMIT, 40_000),
    ],
)
def test_the_text_limit_is_the_smaller_of_option_and_tokenizer(
    asked: int | None, limit: TokenizerLimit | None, held: int
) -> None:
    described = manifest(max_length=2000, tokenizer_limit=limit)
    assert max_characters(Config(bundle=Path("b"), max_text_characters=asked), described) == held


@pytest.mark.parametrize(("asked", "warned"), [(None, 0), (64, 0), (1 << 30, 1)])
def test_an_option_beyond_the_tokenizers_limit_is_warned_of(
    asked: int | None, warned: int, bundle_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="headlight_service"):
        assembly.load(Config(bundle=bundle_path, provider="cpu", max_text_characters=asked))
    assert [vars(record)["event"] for record in logged(caplog)] == ["text_limit_lowered"] * warned


def older(bundle: Path, copy: Path) -> Path:
    """Return a bundle as exported before tokenizers were measured."""
    shutil.copytree(bundle, copy)
    rewrite(copy, lambda values: values.pop("tokenizer_limit"))
    return copy


def test_the_tokenizer_of_an_older_bundle_is_measured_at_start(
    bundle_path: Path, tmp_path: Path
) -> None:
    runtime = assembly.load(Config(bundle=older(bundle_path, tmp_path / "older"), provider="cpu"))
    limit = runtime.bundle.manifest.tokenizer_limit
    assert limit is not None
    assert max_characters(Config(bundle=Path("b")), runtime.bundle.manifest) <= limit.max_characters


def test_a_slow_tokenizer_of_an_older_bundle_lowers_the_limit(
    bundle_path: Path, tmp_path: Path
) -> None:
    copy = older(bundle_path, tmp_path / "older")
    values = json.loads((copy / "tokenizer.json").read_text())
    values["normalizer"] = {"type": "Replace", "pattern": {"Regex": r"\n(?!\s*\n)"}, "content": "x"}
    (copy / "tokenizer.json").write_text(json.dumps(values))
    relist(copy, "tokenizer.json")
    runtime = assembly.load(Config(bundle=copy, provider="cpu"))
    assert runtime.bundle.manifest.tokenizer_limit == TokenizerLimit(
        max_characters=8192, worst="line breaks"
    )


def test_one_text_of_the_model_fits_a_request_whatever_the_options(
    bundle_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(bundle=bundle_path, provider="cpu", max_request_tokens=1, max_queue_tokens=1)
    with caplog.at_level(logging.WARNING, logger="headlight_service"):
        longest = assembly.load(config).bundle.manifest
    assert [vars(record)["event"] for record in logged(caplog)] == ["request_limit_raised"]
    told = limits(config, longest)
    assert told.max_request_tokens == longest.max_length
    admission = fitted(config, told)
    assert admission.tokens.limit == admission.bulk.limit == longest.max_length
