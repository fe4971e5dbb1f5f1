"""Two rules for "uniform" heads, by length of the text.

    python -m lab.uniform_rule

writes docs/positions/uniform-rule.md. A tutorial calls a head uniform if the standard deviation of
its weights is below .15. `headlight heads` uses the spread of the rows. Texts are windows of
modules of Python's standard library that the shipped model was not trained on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bench.frame.machine import machine
from bench.frame.report import publish
from headlight import AttentionSpec
from headlight.analysis.head_kinds import UNIFORM, classify
from headlight.results import Floats
from headlight.runtime import Runtime
from headlight.runtime.values import Ids
from headlight_model.evaluate.neural import Shipped
from headlight_model.texts import corpus
from headlight_model.train.data.batches import source_stream, windows
from lab.exact.claims import CALLED_UNIFORM, greatest_deviation

LENGTHS = (8, 16, 32, 64, 128)
WINDOWS = 32  # of each length
CHECKPOINT = Path("model/headlight_model/checkpoints/docs-rope")


def called_uniform(maps: Floats) -> Floats:
    """Return whether the tutorial's rule calls maps uniform: float32 [..., n, n] -> bool [...]."""
    return np.asarray(maps.std(axis=(-2, -1), dtype=np.float64) < CALLED_UNIFORM)


def shares(runtime: Runtime, texts: Ids) -> tuple[float, float, float]:
    """Return the shares of all heads and texts that the tutorial's and our rule call uniform.

    The third number is the mean spread. Texts: int64 [N, n].
    """
    tutorial, ours, spreads = [], [], []
    for ids in texts:
        tutorial.append(called_uniform(runtime.attend(ids).weights).mean())
        heads = classify(runtime.attention([ids], AttentionSpec(reduce=("statistics",))))
        ours.append(np.mean([head.kind == "uniform" for head in heads]))
        spreads.append(np.mean([head.spread for head in heads]))
    return float(np.mean(tutorial)), float(np.mean(ours)), float(np.mean(spreads))


def main() -> None:
    """Measure both rules on the shipped model and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/docs-rope"))
    parser.add_argument("--out", type=Path, default=Path("docs/positions/uniform-rule.md"))
    options = parser.parse_args()
    held_out = (each for each in corpus.sources() if each.part is corpus.Part.TEST)
    stream = source_stream(Shipped(CHECKPOINT).tokenizer, held_out)
    runtime = Runtime(options.bundle)
    shape = runtime.bundle.manifest.architecture
    rows = []
    for length in LENGTHS:
        texts = windows(stream, WINDOWS, length, np.random.default_rng(length))
        tutorial, ours, spread = shares(runtime, texts)
        bound = greatest_deviation(length)
        rows.append(f"| {length} | {tutorial:.0%} | {ours:.0%} | {spread:.2f} | {bound:.3f} |")
    report = [
        "# A rule that fails: a small standard deviation",
        "",
        (
            f"`python -m lab.uniform_rule`: the {shape.layers * shape.heads} heads of "
            f"{runtime.bundle.manifest.name} on {WINDOWS} windows of each length, from modules "
            f"of the standard library that were held out of training. {machine(['onnxruntime'])}."
        ),
        "",
        (
            f"| tokens | uniform by standard deviation < {CALLED_UNIFORM} | uniform by spread ≥ "
            f"{UNIFORM} | mean spread | largest possible standard deviation |"
        ),
        "|---|---|---|---|---|",
        *rows,
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
