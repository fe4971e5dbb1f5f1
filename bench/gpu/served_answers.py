"""Engine latency of one short text, and cost of attention beside vectors alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bench.attention as forms_of_attention
from bench.gpu.budget import Budget, Deadline
from bench.gpu.device import DTYPES, Device
from bench.gpu.interleaved import in_one_line, interleave
from bench.serving.workloads import percentile
from headlight.runtime import Runtime

SHORT = "Join two paths and tell whether the result is a directory."
FEWEST, CALLS_A_ROUND = 20, 40  # calls that are timed
WARM_UPS = 20
Shapes = Sequence[tuple[int, int]]  # texts and tokens
SHAPES = ((1, 128), (32, 128), (4, 512))
SHORT_SECTION, ATTENTION_SECTION = "one short text", "attention"


def short_text(bundle: Path, device: Device, budget: Budget, deadline: Deadline) -> dict[str, Any]:
    """Return percentiles of the engine's time for one short text, by precision.

    The text is tokenised before, and is alone on the device.
    """
    precisions: dict[str, Any] = {}
    for at, precision in enumerate(DTYPES):
        if deadline.over:
            budget.skip(SHORT_SECTION, precision)
            continue
        try:
            precisions[precision] = _short(
                bundle, precision, device, deadline.part(1 / (len(DTYPES) - at))
            )
        except Exception as error:  # the others go on
            precisions[precision] = {"error": in_one_line(error)}
    return {"encoder": bundle.name, "precisions": precisions}


def _short(bundle: Path, precision: str, device: Device, deadline: Deadline) -> dict[str, Any]:
    runtime = Runtime(
        bundle, provider=device.provider, precision=precision, attend=False, gpu=device.gpu
    )
    assert runtime.tokenizer is not None
    item = runtime.item(runtime.tokenizer.encode(SHORT, with_info=False), runtime.select())
    seconds: list[float] = []
    for _ in range(WARM_UPS):
        runtime.engine.run([item], wide=True)
    while len(seconds) < FEWEST or (
        len(seconds) < CALLS_A_ROUND * deadline.rounds and not deadline.over
    ):
        begin = time.perf_counter()
        runtime.engine.run([item], wide=True)
        seconds.append(time.perf_counter() - begin)
    told_of = {f"p{q}_ms": percentile(seconds, q) for q in (50, 99)}
    return {"tokens": len(item.ids), "calls": len(seconds)} | told_of


def attention_cost(
    bundles: Path,
    names: Sequence[str],
    shapes: Shapes,
    device: Device,
    precision: str,
    budget: Budget,
    deadline: Deadline,
) -> list[dict[str, Any]]:
    """Return a row for each encoder and shape: vectors alone and each form of attention.

    Through the engine, with results on the host.
    """
    rows: list[dict[str, Any]] = []
    cases = [(name, shape) for name in names for shape in shapes]
    for at, (name, (count, length)) in enumerate(cases):
        if deadline.over:
            budget.skip(ATTENTION_SECTION, f"{name}, {count} x {length}")
            continue
        about: dict[str, Any] = {
            "size": name,
            "precision": precision,
            "texts": count,
            "length": length,
        }
        try:
            runtime = Runtime(
                bundles / name, provider=device.provider, precision=precision, gpu=device.gpu
            )
            about["length"] = min(length, runtime.bundle.manifest.max_length)
            contestants = forms_of_attention.contestants(runtime, count, about["length"])
            times = interleave(contestants, deadline.part(1 / (len(cases) - at)))
            rows.append(about | {"times": {form: one.to_json() for form, one in times.items()}})
        except Exception as error:  # the others go on
            rows.append(about | {"error": in_one_line(error)})
    return rows
