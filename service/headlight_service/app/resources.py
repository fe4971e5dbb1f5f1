"""CPUs and memory of a container for the service: `headlight info --resources`."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headlight.errors import BundleError, InvalidInput, Unavailable
from headlight.runtime.bundle.bundle import Bundle, read_manifest
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.providers.worker_layout import share, usable_cpus
from headlight_service.app.assembly import limits
from headlight_service.app.executor import output_limit
from headlight_service.app.model_preparation import ExportFailed, prepare
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.command_line import ConfigError
from headlight_service.config.model_entries import entries_of
from headlight_service.config.options import Config
from headlight_service.core.admission.working_memory import (
    MIB,
    batches_at_once,
    resident_bytes,
    text_bytes,
)

PROCESS_BYTES = 300 * MIB  # Python and the libraries, under load
OPENING_BF16 = 6.0  # times the weights; computed in fp32
STEP = 128 * MIB  # the memory of a container is rounded up to it
REASONS = {
    "answers": "twice --max-output-bytes",
    "requests": "--max-queue-bytes",
    "process": "Python and libraries",
    "weights": "their peak, while they are opened",
    "texts": "working memory of the longest texts, as many as run at once",
}


class Opening(NamedTuple):
    """Peak of the memory while a model is opened, tested and warmed up.

    Attributes:
        times: multiple of its weights, with one or two workers.
        libraries: bytes besides.
        worker_times, worker_bytes: both again for each further worker.
    """

    times: float
    libraries: int = 0
    worker_times: float = 0.0
    worker_bytes: int = 0


# Measured on CPUs (bench/results/loading-memory.md); a GPU was not at hand. Workers of ONNX Runtime
# share a session; OpenVINO compiles the graph for each.
OPENING = {
    "cpu": Opening(4.5, 16 * MIB),
    "openvino": Opening(6.0, 192 * MIB, 0.2, 8 * MIB),
    "cuda": Opening(3.0),
}
FEW_WORKERS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """CPUs and memory of one container.

    Attributes:
        cpus: threads that compute, each a whole CPU.
        streams, threads: workers, and the threads of each.
        parts: the largest that each part of the memory can become, in bytes; see `REASONS`.
    """

    cpus: int
    streams: int
    threads: int
    parts: Mapping[str, int]

    @property
    def memory(self) -> int:
        """Bytes of the container: the sum, rounded up to `STEP`."""
        return -(-sum(self.parts.values()) // STEP) * STEP


def check_memory(config: Config, bundle: Path, limit: int | None) -> None:
    """Refuse a model that would not fit beside what the process has in memory, before it is loaded.

    Args:
        config: its options.
        bundle: its folder.
        limit: memory limit of the container in bytes; None: there is none.

    Raises:
        BundleError: with the numbers.
    """
    if limit is None:
        return
    provider = "cpu" if config.provider == "auto" else config.provider
    try:
        manifest, _ = read_manifest(bundle, config.bundle_sha256)
        weights = weight_bytes(manifest, provider, config.precision)
    except BundleError:  # the loading will say so, or find a GPU
        return
    streams, _ = _workers(config, provider, usable_cpus())
    peak, resident = opening_bytes(weights, provider, config.precision, streams), resident_bytes()
    if resident + peak > limit:
        raise BundleError(
            f"loading {manifest.name} takes up to {peak / MIB:.0f} MiB for {weights / MIB:.0f} MiB "
            f"of weights, beside {resident / MIB:.0f} MiB in use; the memory limit is "
            f"{limit / MIB:.0f} MiB: raise it, or serve fewer models in this process"
        )


def resources_of(config: Config, manifest: Manifest, cpus: int) -> Resources:
    """Return what the service needs to hold its largest answers, requests and texts at once.

    Args:
        config: the options of the service.
        manifest: of its bundle.
        cpus: CPUs of the container.
    """
    provider = "cpu" if config.provider == "auto" else config.provider
    streams, threads = _workers(config, provider, cpus)
    attend = config.attention == "on" and manifest.attends
    batches = batches_at_once(streams, provider)
    fused = manifest.fused(provider, config.precision)
    text = text_bytes(
        manifest.architecture, manifest.max_length, provider, attend=attend, fused=fused
    )
    weights = weight_bytes(manifest, provider, config.precision)
    return Resources(
        cpus=cpus,
        streams=streams,
        threads=threads,
        parts={
            "answers": 2 * output_limit(config, limits(config, manifest).max_stream_output_bytes),
            "requests": config.max_queue_bytes,
            "process": PROCESS_BYTES,
            "weights": weights_peak(weights, provider, config.precision, streams),
            "texts": batches * text,
        },
    )


def _workers(config: Config, provider: str, cpus: int) -> tuple[int, int]:
    """Return the number of workers, and of the threads of each, as the runtime chooses them."""
    return share(config.streams or (1 if provider == "cuda" else None), config.threads, cpus)


def opening_bytes(weights: int, provider: str, precision: str, streams: int) -> int:
    """Return the peak that a process takes to open a model with so many bytes of weights."""
    return weights_peak(weights, provider, precision, streams) + OPENING[provider].libraries


def weights_peak(weights: int, provider: str, precision: str, streams: int) -> int:
    """Return that peak without the libraries."""
    opening, further = OPENING[provider], max(0, streams - FEW_WORKERS)
    times = OPENING_BF16 if provider == "cpu" and precision == "bf16" else opening.times
    times += further * opening.worker_times
    return int(weights * times) + further * opening.worker_bytes


def weight_bytes(manifest: Manifest, provider: str, precision: str) -> int:
    """Return the bytes of the weights of the graphs that are opened.

    Raises:
        BundleError: the bundle has no graphs of this provider and precision.
    """
    manifest.graph("embed", provider, precision)
    files = {
        name
        for graph in manifest.graphs
        if provider in graph.providers and graph.precision == precision
        for name in graph.weights
    }
    return sum(manifest.files[name].bytes for name in files)


def as_patch(resources: Resources, title: str) -> str:
    """Return the resources in YAML, for a container of a Pod, with the parts as comments."""
    parts = [
        f"#   {name:<8}  {-(-count // MIB):>7,} MiB  {REASONS[name]}"
        for name, count in resources.parts.items()
    ]
    lines = [
        f"# {title}",
        *parts,
        "resources:",
        "  requests: &resources",
        f'    cpu: "{resources.cpus}"',
        f"    memory: {resources.memory // MIB}Mi",
        "  limits: *resources",
    ]
    return "\n".join(lines)


def as_json(resources: Resources) -> dict[str, object]:
    """Return the resources in JSON."""
    return {
        "cpus": resources.cpus,
        "memory_bytes": resources.memory,
        "parts": dict(resources.parts),
        "streams": resources.streams,
        "threads": resources.threads,
    }


def compute(
    arguments: Sequence[str], cpus: int | None, tell: Callable[[str], object]
) -> tuple[Resources, str]:
    """Return the resources of `headlight serve` with these arguments, and a title.

    A model that is no bundle is exported into the cache first, as `headlight serve` does.

    Args:
        arguments: of `headlight serve`. The environment counts, too.
        cpus: CPUs of the container; None: those of this machine.
        tell: receives the steps of an export.

    Raises:
        InvalidInput: an option is wrong, or the model cannot be found or exported.
        BundleError: the bundle cannot be used.
        Unavailable: the export failed, and may succeed later.
    """
    try:
        config = Config.parse(arguments, os.environ)
        models = [
            (entry.config, asyncio.run(prepare(entry.config, os.environ, StartupSteps(tell))))
            for entry in entries_of(config)
        ]
    except ConfigError as error:
        raise InvalidInput("", str(error)) from None
    except ExportFailed as error:
        raise Unavailable(str(error)) from None
    cpus = usable_cpus() if cpus is None else cpus
    estimates, titles = list[Resources](), list[str]()
    for entry, bundle in models:
        manifest = Bundle(bundle, entry.bundle_sha256).manifest
        estimates.append(resources_of(entry, manifest, cpus))
        titles.append(
            f"{manifest.name}: provider {entry.provider}, precision {entry.precision}, "
            f"attention {entry.attention}"
        )
    resources = together(estimates)
    titles[-1] += f", streams {resources.streams}, threads {resources.threads}"
    return resources, "; ".join(titles)


def together(models: Sequence[Resources]) -> Resources:
    """Return what one process needs for several models: they share all but their weights."""
    parts = {
        name: (sum if name == "weights" else max)([each.parts[name] for each in models])
        for name in REASONS
    }
    return dataclasses.replace(models[0], parts=parts)
