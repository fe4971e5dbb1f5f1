"""Options of the model, and of the computation."""

# ruff: noqa: RUF009  # `option` is dataclasses.field

from __future__ import annotations

import dataclasses
from pathlib import Path

from headlight.runtime.providers.provider_choice import PRECISIONS, PROVIDERS
from headlight_service.config.option_types import (
    COUNT,
    THREADS,
    choice_option,
    digest,
    flag,
    lengths,
    model_names,
    option,
    whole,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model that is served, and its export."""

    model: str | None = option(
        None,
        str,
        (
            "a bundle, a model's folder or a Hub id, as org/name; what is no bundle is exported "
            "once, into a cache (default: the shipped model)"
        ),
        bare=True,
    )
    revision: str | None = option(
        None, str, "branch, tag or commit of a Hub id (default: main)", metavar="NAME"
    )
    pooling: str | None = option(
        None,
        str,
        "for the export of a model that does not name its pooling: mean, cls, max, last, ...",
        metavar="NAME",
    )
    max_length: int | None = option(
        None,
        COUNT,
        "for the export: tokens of the longest text (default: as the model says)",
        metavar="TOKENS",
    )
    served_model_name: tuple[str, ...] = option(
        (),
        model_names,
        (
            "further names of the model, with commas between them; answers to other tools have the "
            "first (default: the bundle's name, the Hub id and its last part, which always work)"
        ),
        metavar="NAME,...",
    )
    any_model_name: bool = option(
        False, flag, "POST /v1/embeddings answers any name of a model; else unknown ones are 404"
    )
    bundle: Path | None = option(None, Path, "a bundle's folder, in place of MODEL", metavar="DIR")
    bundle_sha256: str | None = option(
        None,
        digest,
        "digest that the bundle's manifest must have; set it if others can write the folder",
        metavar="DIGEST",
    )
    check: bool = option(
        False, flag, "check the bundle, run its golden inputs, print one line and exit"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputationOptions:
    """Execution provider, precision and threads."""

    provider: str = choice_option(
        "auto",
        (
            "execution provider; auto: cuda if onnxruntime-gpu is installed and there is a GPU, "
            "else cpu; openvino: has bf16 on CPUs with AVX512-BF16 or AMX"
        ),
        *("auto", *PROVIDERS),
    )
    precision: str = choice_option(
        "fp32",
        (
            "precision of the computation, if the bundle has graphs for it; use one for all nodes "
            "that fill one index"
        ),
        *PRECISIONS,
    )
    attention: str = choice_option(
        "on", "off: serve vectors alone, and save the memory of the other graph", "on", "off"
    )
    threads: int | None = option(
        None,
        THREADS,
        "threads per batch (default: CPUs / streams); more than 1 helps with few, long texts",
    )
    streams: int | None = option(
        None,
        THREADS,
        (
            "batches at once (default: one per CPU, at most 8; cuda: 1); for a moment there may be "
            "twice as many, because running bulk batches end beside interactive ones"
        ),
    )
    wide: str = choice_option(
        "auto",
        (
            "whether a lone interactive batch gets all threads: lower latency, for a second copy "
            "of the weights in memory; auto: on from 4 threads (openvino: 2); with fewer, a copy "
            "of at most 96 MiB, else the session that returns attention"
        ),
        *("auto", "on", "off"),
    )
    warm_up_lengths: tuple[int, ...] = option(
        (16, 64, 256),
        lengths,
        "lengths in tokens to run before serving, so that no request waits for a first run",
    )
    gpu_device: int = option(
        0, whole(0, (1 << 31) - 1), "for provider cuda: index of the GPU", metavar="INDEX"
    )
    gpu_memory_bytes: int | None = option(
        None,
        whole(1 << 20),
        (
            "for provider cuda: GPU memory for each graph (default: no limit); there are two "
            "graphs, or one with --attention off"
        ),
    )
