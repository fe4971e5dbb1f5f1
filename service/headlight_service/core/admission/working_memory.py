"""Check that the container has room for the working memory of batches, which has no limit."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from headlight.runtime import Runtime
from headlight.runtime.values import Architecture

log = logging.getLogger("headlight_service.core.admission.working_memory")
# Memory limit of the container itself: of cgroup v2, and of v1, where "none" is a huge number.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
RESIDENT = Path("/proc/self/statm")
MIB = 1 << 20

# Largest number of attention maps, float32 [heads, length, length], that a batch of one text holds
# in addition to twice its answer, as measured (docs/performance.md, "Memory of long texts"): for
# vectors alone, with the graph of attention, and more of them for each layer. ONNX Runtime holds
# only some at a time, but one of each layer for forms that are reduced outside of the graph.
# OpenVINO fuses attention into one operation; the graph that returns it keeps those of each layer.
# A GPU has them in its own memory, except those reduced here.
MAPS = {"cpu": (4, 4, 1), "openvino": (1, 3, 4), "cuda": (0, 0, 1)}
# The same of what position schemes add to scores of each head.
BIAS_MAPS = {"alibi": 2, "disentangled": 8, "relative": 2}

# Vectors float32 [width] for each token that such a batch holds where attention is fused.
FUSED_ROWS = 16


def text_bytes(
    architecture: Architecture, length: int, provider: str, *, attend: bool, fused: bool = False
) -> int:
    """Return the most bytes that a text takes to compute, in addition to twice its answer.

    Args:
        architecture: shape of the model.
        length: length of the text in tokens.
        provider: the provider that computes.
        attend: whether attention can be requested, too.
        fused: whether the graph of vectors holds no maps: `Manifest.fused`.
    """
    if fused and not attend:
        return FUSED_ROWS * 4 * architecture.dim * length
    vectors, attention, layer = MAPS[provider]
    maps = attention + layer * architecture.layers if attend else vectors
    if provider != "cuda":
        maps += sum(BIAS_MAPS.get(scheme, 0) for scheme in architecture.positions.split("+"))
    return maps * 4 * architecture.heads * length**2


def batches_at_once(streams: int, provider: str) -> int:
    """Return the most batches that run at once: interactive and bulk; OpenVINO: one per slot."""
    return streams if provider == "openvino" else 2 * streams


def memory_limit(files: Sequence[Path] = LIMITS) -> int | None:
    """Return the bytes that the container may use; None: no limit."""
    for file in files:
        try:
            return int(file.read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return None


def resident_bytes() -> int:
    """Return the bytes that this process has in memory."""
    return int(RESIDENT.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def warn_if_short(runtime: Runtime, limit: int | None) -> None:
    """Log one warning if the longest texts, as many as may run at once, do not fit into memory.

    Args:
        runtime: the runtime, loaded and warm.
        limit: memory limit in bytes; None: there is none.
    """
    if limit is None:
        return
    manifest, provider = runtime.bundle.manifest, runtime.provider
    attend = "attend" in runtime.graph_roles
    fused = manifest.fused(provider, runtime.precision)
    text = text_bytes(
        manifest.architecture, manifest.max_length, provider, attend=attend, fused=fused
    )
    batches = batches_at_once(runtime.workers.streams, provider)
    resident = resident_bytes()
    if resident + batches * text <= limit:
        return
    remedies = ["raise the limit", "export with a smaller --max-length"]
    if runtime.workers.streams > 1:
        remedies.append("lower --streams (HEADLIGHT_STREAMS)")
    if attend:
        remedies.append("serve with --attention off")
    problem = (
        f"a text of {manifest.max_length} tokens may take {text / MIB:.0f} MiB to compute, "
        f"{batches} at once {batches * text / MIB:.0f} MiB beside {resident / MIB:.0f} MiB in "
        f"use; the memory limit is {limit / MIB:.0f} MiB, beyond which the process is killed"
    )
    log.warning(
        f"{problem}: {', or '.join(remedies)}",
        extra={
            "event": "memory_short",
            "tokens": manifest.max_length,
            "text_bytes": text,
            "batches": batches,
            "estimate_bytes": batches * text,
            "resident_bytes": resident,
            "limit_bytes": limit,
        },
    )
