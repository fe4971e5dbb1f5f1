"""Cost of each form of attention in bfloat16, and its distance from float32.

`make bench` runs it and writes bench/results/attention_bf16.md.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.attention import SHAPES, contestants
from bench.attention_forms import VECTORS_ALONE, random_ids
from bench.encoder import bundle
from bench.measuring import machine, medians, publish
from headlight.errors import BundleError
from headlight.runtime import ItemResult, Runtime
from headlight.runtime.values import Tokenized
from headlight.spec import AttentionSpec


def cost_table(plain: Runtime, fast: Runtime, rounds: int) -> list[str]:
    """Return each form's milliseconds in bf16 and ratio to vectors alone; and those in fp32."""
    heading = [f"{batch} x {length}" for batch, length in SHAPES]
    lines = ["| | " + " | ".join(heading) + " |", "|---" * (len(heading) + 1) + "|"]
    columns = []
    for batch, length in SHAPES:
        fp32 = contestants(plain, batch, length)[VECTORS_ALONE]
        columns.append(medians({"fp32, cpu": fp32} | contestants(fast, batch, length), rounds))
    for name in columns[0]:
        cells = [
            f"{column[name]:.1f} ms ({column[name] / column[VECTORS_ALONE]:.2f}x)"
            for column in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def error_lines(plain: Runtime, fast: Runtime) -> list[str]:
    """Return the distance of bf16 from fp32, on random ids of 128 and of 512."""
    lines = [
        (
            "| tokens | smallest cosine of vectors | largest difference of a weight | of the "
            "mean of heads |"
        ),
        "|---" * 4 + "|",
    ]
    for length in (128, 512):
        exact, rough = (_results(runtime, length) for runtime in (plain, fast))
        cosine = min(_cosine(a.pooled, b.pooled) for a, b in zip(exact, rough, strict=True))
        apart = [np.abs(_maps(a) - _maps(b)).max() for a, b in zip(exact, rough, strict=True)]
        lines.append(f"| {length} | {cosine:.5f} | {apart[0]:.1e} | {apart[1]:.1e} |")
    return lines


def _results(runtime: Runtime, length: int) -> list[ItemResult]:
    tokenized = Tokenized(random_ids(length), length, None)
    specs = (AttentionSpec(), AttentionSpec(reduce=("head_mean",)))
    return [
        runtime.engine.run([runtime.item(tokenized, runtime.select(attention=spec))])[0]
        for spec in specs
    ]


def _maps(result: ItemResult) -> NDArray[Any]:
    assert result.attention is not None
    return result.attention


def _cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("bench/results/attention_bf16.md"))
    options = parser.parse_args()
    random.seed(0)
    path = bundle(Path("build/bench"))
    plain = Runtime(path)
    try:
        fast = Runtime(path, provider="openvino", precision="bf16")
    except BundleError as error:
        raise SystemExit(f"Nothing is measured: {error}") from None
    report = [
        "# What each form of attention costs in bfloat16",
        "",
        (
            f"`make bench` on {machine(['openvino', 'onnxruntime', 'numpy'])}; 6 layers, 12 "
            "heads, d=384, random weights. `--provider openvino --precision bf16`. All layers in "
            f"each form. Medians of {options.rounds} interleaved rounds; in brackets the ratio to "
            "vectors alone in bf16. Reported beside attention.md, not held to its limits: "
            "products take less time in bf16, and what is done once per map does not."
        ),
        "",
        *cost_table(plain, fast, options.rounds),
        "",
        "Against fp32:",
        "",
        *error_lines(plain, fast),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
