"""Assembly of a model that can be served, from its bundle and the options."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from headlight.description import Limits
from headlight.errors import BundleError, DeviceFull, EngineError, HostFull
from headlight.runtime import EncodeItem, Manifest, Runtime
from headlight.runtime.encode_items import everything
from headlight.runtime.engine.engine import Engine
from headlight.runtime.providers.cuda_session import Gpu
from headlight.runtime.providers.onnx_session import gpu_installed
from headlight.runtime.tokenization.input_checks import TRUNCATIONS
from headlight.runtime.tokenization.long_texts import CHARACTERS_PER_TOKEN
from headlight.runtime.values import GraphRole
from headlight_service.app.executor import Executor, output_limit
from headlight_service.app.startup_steps import OPENING, SELF_TEST, StartupSteps
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.models import ServedModel
from headlight_service.core.scheduler.cpu_time import cpu_seconds_of_workers
from headlight_service.core.scheduler.engine_health import EngineFunctions
from headlight_service.core.scheduler.lanes import BatchLimit
from headlight_service.core.scheduler.running_batch import BatchReport
from headlight_service.telemetry.metrics import Metrics, ModelMetrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.assembly")
LEAST_STREAM_OUTPUT_BYTES, MOST_STREAM_OUTPUT_BYTES = 64 << 20, 1 << 30  # range of the default


def load(config: Config, steps: StartupSteps | None = None) -> Runtime:
    """Verify and open the bundle, and compare its results here with those of PyTorch.

    Raises:
        BundleError: naming the file at fault.
        ConfigError: no bundle is named.
    """
    if config.bundle is None:
        raise ConfigError("no bundle is named; `prepare` finds the model's")
    steps = steps or StartupSteps()
    steps(OPENING)
    # NumPy's threads spin for work beside the sessions' threads: a rollout took 2.8 times the CPU.
    threadpool_limits(1, "blas")
    runtime = Runtime(
        config.bundle,
        provider=config.provider,
        precision=config.precision,
        threads=config.threads,
        streams=config.streams,
        wide=None if config.wide == "auto" else config.wide == "on",
        sha256=config.bundle_sha256,
        attend=config.attention == "on",
        batch_tokens=config.batch_tokens,
        round_lengths=config.round_lengths,
        gpu=Gpu(config.gpu_device, config.gpu_memory_bytes, config.gpu_graphs == "on"),
        self_test=False,  # all golden inputs run below
    )
    measure_tokenizer(runtime)
    manifest = runtime.bundle.manifest  # includes the tokenizer's limit
    if config.max_request_tokens < manifest.max_length:
        log.warning(
            (
                f"--max-request-tokens is {config.max_request_tokens}; one text of the model has "
                f"up to {manifest.max_length} tokens, and this number is allowed"
            ),
            extra={"event": "request_limit_raised", "max_request_tokens": manifest.max_length},
        )
    requested, held = config.max_text_characters, max_characters(config, manifest)
    if requested is not None and held < requested:
        log.warning(
            (
                f"--max-text-characters is {requested}; the bundle's tokenizer_limit, {held}, "
                "holds; lower the option"
            ),
            extra={"event": "text_limit_lowered", "max_characters": held},
        )
    if fell_back(config, runtime):
        log.warning(
            "--provider auto found no GPU, so the CPU computes."
            " --provider cuda makes that an error, --provider cpu says that it is meant",
            extra={"event": "provider_fallback"},
        )
    steps(SELF_TEST)
    with fitting():
        runtime.check_golden()
    return runtime


def measure_tokenizer(runtime: Runtime) -> None:
    """Add the tokenizer's limit to a manifest that was exported before limits were measured.

    That takes seconds. Refusing all older bundles would also refuse harmless ones.
    """
    manifest = runtime.bundle.manifest
    if runtime.tokenizer is not None and manifest.tokenizer_limit is None:
        limit = runtime.tokenizer.measure()
        runtime.bundle.manifest = dataclasses.replace(manifest, tokenizer_limit=limit)


def max_characters(config: Config, manifest: Manifest) -> int:
    """Return the characters of one text that is not truncated: the options', or the tokenizer's."""
    requested = config.max_text_characters or CHARACTERS_PER_TOKEN * manifest.max_length
    return min(requested, max_characters_read(config, manifest))


def max_characters_read(config: Config, manifest: Manifest) -> int:
    """Return the characters that are read of one text that is truncated."""
    requested, limit = config.max_text_characters, manifest.tokenizer_limit
    if limit is None:
        return requested or CHARACTERS_PER_TOKEN * manifest.max_length
    return min(requested or limit.max_characters, limit.max_characters)


def fell_back(config: Config, runtime: Runtime) -> bool:
    """Return whether the CPU computes because there is no GPU for the installed ONNX Runtime."""
    return config.provider == "auto" and runtime.provider == "cpu" and gpu_installed()


@contextlib.contextmanager
def fitting() -> Iterator[None]:
    """Raise BundleError if work before serving fails, for example if memory is too small for it."""
    try:
        yield
    except (HostFull, MemoryError):
        raise BundleError(
            "memory is too small for the first batches; allow more, as by the limit of the "
            "container, or lower --warm-up-lengths"
        ) from None
    except DeviceFull:
        raise BundleError(
            "the memory of the GPU is too small for the first batches; raise --gpu-memory-bytes, "
            "stop other processes on the GPU, or lower --warm-up-lengths"
        ) from None
    except EngineError as error:
        raise BundleError(
            f"the first batches failed: {error.message}; if memory is short, "
            "allow more or lower --warm-up-lengths"
        ) from error


def limits(config: Config, manifest: Manifest) -> Limits:
    """Return the limits that GetModel reports.

    By default, a stream may hold every output of one text of the maximum length, at most a GiB:
    8,192 tokens with 24 layers of 16 heads would have 96 GiB. It may never hold more than the whole
    process: a request that can never be served gets a final error, without a retry.
    """
    architecture = manifest.architecture
    selection = everything(architecture, "attend" if config.attention == "on" else "embed")
    longest = EncodeItem(np.zeros(manifest.max_length, dtype=np.int64), selection)
    needed = sum(longest.output_bytes(architecture).values())
    usual = min(max(needed, LEAST_STREAM_OUTPUT_BYTES), MOST_STREAM_OUTPUT_BYTES)
    of_stream = config.max_stream_output_bytes or usual
    return Limits(
        max_items=config.max_items,
        max_request_bytes=config.max_request_bytes,
        max_unary_response_bytes=config.max_unary_response_bytes,
        max_stream_output_bytes=min(of_stream, largest_output(output_limit(config, of_stream))),
        max_stream_in_flight=config.max_stream_in_flight,
        max_request_tokens=max(config.max_request_tokens, manifest.max_length),
    )


def assemble(
    runtime: Runtime,
    config: Config,
    metrics: Metrics,
    executor: Executor,
    tracing: Tracing | None = None,
) -> ServedModel:
    """Return a model that can be served, whose requests the executor takes.

    Args:
        runtime: the loaded runtime.
        config: the options.
        metrics: receives the model's series.
        executor: the process's.
        tracing: makes spans of the batches.

    Raises:
        ConfigError: see `Executor.check_workers`.
    """
    executor.check_workers(runtime)
    manifest, series = runtime.bundle.manifest, metrics.of(runtime.bundle.manifest.name)
    estimate = WaitEstimate(executor.slots, config.weight)
    model = ServedModel(
        runtime,
        limits(config, manifest),
        executor.scheduler,
        executor.admission,
        estimate,
        series,
        max_characters(config, manifest),
        config.special_tokens,
        TRUNCATIONS[config.truncation],
        config.served_model_name,
        config.empty_texts,
        max_characters_read(config, manifest),
    )
    functions = EngineFunctions(
        runtime.engine.run,
        runtime.probe,
        runtime.engine.wide_roles,
        runtime.engine.rounding,
        functools.partial(_observe, runtime.engine, series, estimate),
        None if tracing is None else tracing.batches(model.ref),
        None if runtime.provider == "cuda" else cpu_seconds_of_workers,
        manifest.name,
    )
    executor.add(model, functions, batch_limits(runtime, config))
    metrics.serve(
        **_labels(model),
        gauges=_gauges(executor, model.ref.name, fell_back=fell_back(config, runtime)),
    )
    return model


def drop(model: ServedModel, metrics: Metrics, executor: Executor) -> None:
    """Give the memory of a retired model back, once its last request has ended. It waits."""
    executor.drop(model)
    labels = _labels(model)
    metrics.withdraw(**labels, others=labels in [_labels(each) for each in executor.models])


def _labels(model: ServedModel) -> dict[str, str]:
    """Return what metrics tell of a model's weights."""
    ref = model.ref
    return {
        "model": ref.name,
        "version": ref.version,
        "sha256": ref.bundle_sha256,
        "provider": ref.provider,
        "precision": ref.precision,
        "positions": model.runtime.bundle.manifest.architecture.positions,
    }


def _gauges(executor: Executor, name: str, fell_back: bool) -> dict[str, Callable[[], float]]:
    """Return the functions that each scrape calls: one for each of metrics.GAUGES.

    The series of a name count all its versions.
    """
    admission = executor.admission

    def estimates() -> list[WaitEstimate]:
        return [each.estimate for each in [*executor.models] if each.ref.name == name]

    return {
        "headlight_queue_tokens": lambda: sum(sum(each.queued.values()) for each in estimates()),
        "headlight_queue_bulk_tokens": lambda: sum(each.queued["bulk"] for each in estimates()),
        "headlight_backlog_seconds": lambda: sum(
            each.seconds_before("bulk") for each in estimates()
        ),
        "headlight_held_request_bytes": lambda: admission.requests.held,
        "headlight_held_output_bytes": lambda: admission.outputs.held,
        "headlight_provider_fallback": lambda: float(fell_back),
    }


def batch_limits(runtime: Runtime, config: Config) -> dict[GraphRole, BatchLimit]:
    """Return the batch limit of each role: those of the loaded graphs."""
    tokens = runtime.engine.batch_tokens
    limits_of_roles: dict[GraphRole, BatchLimit] = {
        "embed": BatchLimit(tokens, None, config.max_padding)
    }
    if "attend" in runtime.graph_roles:
        limits_of_roles["attend"] = BatchLimit(tokens, config.attend_batch_cost, config.max_padding)
    return limits_of_roles


def _observe(
    engine: Engine, metrics: ModelMetrics, estimate: WaitEstimate, report: BatchReport
) -> None:
    estimate.worked_off(report.tokens, report.seconds, report.wide)
    metrics.batch_items.observe(report.items)
    metrics.batch_tokens.observe(report.tokens)
    metrics.batch_seconds[report.priority].observe(report.seconds)
    metrics.padding_ratio.observe(1 - report.tokens / report.padded_tokens)
    if engine.graph(report.lane.role, wide=report.wide) == "attend":
        metrics.attend_runs.inc()
