"""Cost of attention beside embeddings alone, and gain of batching by length, in the engine.

`make bench` runs it and writes bench/results/embed_vs_attend.md. The contestants of a row take
turns within one run. It reports medians and ratios of the engine in one process.
"""

from __future__ import annotations

import argparse
import functools
import random
from pathlib import Path

import numpy as np

from bench.measuring import Contestants, machine, medians, publish
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.attention.resolved_spec import whole
from headlight.runtime.engine.batches import plan
from headlight.runtime.values import Ids

SHAPES = ((1, 16), (1, 128), (8, 32), (8, 128), (1, 512))


def outputs_table(runtime: Runtime, rounds: int) -> list[str]:
    """Return the cost of each selection of outputs, by shape."""
    architecture = runtime.bundle.manifest.architecture
    layers, heads = range(architecture.layers), architecture.heads
    selections = {
        "pooled": Selection(),
        "pooled + tokens": Selection(tokens=True),
        "+ attention of the last layer": Selection(attention=whole(layers[-1:], heads)),
        "+ attention of all layers": Selection(attention=whole(layers, heads)),
    }
    lines = [
        "| batch x length | " + " | ".join(selections) + " |",
        "|---" * (len(selections) + 1) + "|",
    ]
    for batch, length in SHAPES:
        ids = random_ids(runtime, length)
        contestants: Contestants = {
            name: functools.partial(runtime.engine.run, [EncodeItem(ids, selection)] * batch)
            for name, selection in selections.items()
        }
        found = medians(contestants, rounds)
        cells = [f"{ms:.2f} ms ({ms / found['pooled']:.2f}x)" for ms in found.values()]
        lines.append(f"| {batch} x {length} | " + " | ".join(cells) + " |")
    return lines


def batching_table(runtime: Runtime, rounds: int) -> list[str]:
    """Return texts per second over 256 texts of skewed lengths, by batching plan."""
    rng = np.random.default_rng(0)
    lengths = [int(n) for n in np.clip(rng.lognormal(3.4, 0.8, size=256), 3, 340)]
    items = [EncodeItem(random_ids(runtime, n), Selection()) for n in lengths]
    plans = {
        "one by one": [[i] for i in range(len(items))],
        "arrival order, 32 at a time": [
            list(range(i, min(i + 32, len(items)))) for i in range(0, len(items), 32)
        ],
        "near lengths, token budget (as `Runtime.encode`)": plan(lengths, squared=False),
    }
    batches = {
        name: [[items[i] for i in batch] for batch in batches] for name, batches in plans.items()
    }
    contestants: Contestants = {
        name: functools.partial(run_all, runtime, todo) for name, todo in batches.items()
    }
    found = medians(contestants, max(5, rounds // 4))
    lines = ["| plan | texts/s | padding |", "|---|---|---|"]
    for name, ms in found.items():
        padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in plans[name])
        lines.append(f"| {name} | {1000 * len(items) / ms:.0f} | {1 - sum(lengths) / padded:.0%} |")
    return lines


def run_all(runtime: Runtime, batches: list[list[EncodeItem]]) -> None:
    """Run one batch after another."""
    for batch in batches:
        runtime.engine.run(batch)


def random_ids(runtime: Runtime, length: int) -> Ids:
    """Return random ids, int64 [length]."""
    vocabulary = runtime.bundle.manifest.architecture.vocab_size
    return np.random.default_rng(length).integers(5, vocabulary, size=length, dtype=np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/docs-rope"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("bench/results/embed_vs_attend.md"))
    options = parser.parse_args()
    random.seed(0)
    runtime = Runtime(options.bundle)
    shape = runtime.bundle.manifest.architecture
    report = [
        "# Embeddings alone, and with attention",
        "",
        (
            f"`make bench` on {machine(['onnxruntime'])}; {runtime.bundle.manifest.name}: "
            f"{shape.layers} layers, {shape.heads} heads, d={shape.dim}, {runtime.provider}, "
            f"{runtime.precision}. Medians of {options.rounds} interleaved rounds; in brackets "
            "the ratio to pooled alone. The time includes copying the outputs of each text "
            "out of the batch."
        ),
        "",
        *outputs_table(runtime, options.rounds),
        "",
        "256 texts, log-normal lengths (median 30, up to 340 tokens), pooled:",
        "",
        *batching_table(runtime, options.rounds),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
