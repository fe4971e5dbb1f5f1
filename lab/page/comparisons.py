"""Tables of the comparisons of one change each, of pruning, and of the causal model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from lab.experiments import causal, variants
from lab.experiments.reversal import PRUNED
from lab.page.figures import (
    Results,
    question_count,
    sampling_error,
    steps_to_goal,
    unless_refused,
)
from lab.page.markdown_tables import steps_text, table
from lab.page.verdicts import LEARNT, percent
from lab.results import Range, Run, select

ENOUGH = 0.9  # share of the accuracy with all heads
ORDERS = {"least first": "least important first", "random": "random order"}


def runs(results: Results, variant: str, *, task: str = "", scheme: str = "") -> list[Run]:
    """Return the runs of a variant, of one task and scheme if they are given, by seed."""
    return [
        run
        for run in results["variants"]
        if run["variant"] == variant
        and run["task"] == (task or run["task"])
        and run["scheme"] == (scheme or run["scheme"])
    ]


def _percent(selected: list[Run], length: int, question: str) -> str:
    measured = unless_refused(selected, "accuracy", length, question)
    return "refused" if measured is None else measured.percent()


def _reversed(selected: list[Run]) -> list[str]:
    """Return the accuracy of reversal, and the steps until it has 99 %."""
    return [
        _percent(selected, variants.REVERSED, "reverse"),
        steps_text(Range.over(selected, steps_to_goal)),
    ]


def concatenation(results: Results) -> str:
    """Return the table of adding against concatenating."""
    named = {
        "plain": "added, 64 dimensions for both",
        "concat 48": "concatenated, 48 for the word and 16 for the position",
        "concat 32": "concatenated, 32 and 32",
    }
    lines = []
    for variant, name in named.items():
        selected = runs(results, variant, task="reverse")
        lines.append([name, *_reversed(selected)])
    return table(["positions are", "reversed, %", "steps until 99 %"], lines)


def quoted(results: Results) -> dict[str, str]:
    """Return the figures that the page's table of errors quotes, by name."""
    cost = {int(row["heads"]): row for row in results["head_cost"]}
    reading = results["reading_cost"]

    def steps(variant: str) -> str:
        return _reversed(runs(results, variant, task="reverse"))[1]

    def left(variant: str) -> str:
        return _percent(runs(results, variant, task="recall"), variants.LENGTHS[0], "left")

    return {
        "steps_added": steps("plain"),
        "steps_concatenated": steps("concat 32"),
        "ms_least_heads": f"{cost[min(cost)]['ms']:.0f}",
        "ms_most_heads": f"{cost[max(cost)]['ms']:.0f}",
        "most_heads": str(max(cost)),
        "left_one_head": left("heads 1"),
        "left_eight_heads": left("heads 8"),
        "tokens_read": f"{reading['tokens']:g}",
        "ms_recurrent": f"{reading['recurrent']:.0f}",
        "ms_attention": f"{reading['attention']:.0f}",
    }


def scale(results: Results) -> str:
    """Return the table of embeddings with and without the factor sqrt(d)."""
    rows = (
        ("plain", "1", "no"),
        ("scaled", "1", "yes"),
        ("small", "1/√d", "no"),
        ("small scaled", "1/√d", "yes"),
    )
    root, small = math.sqrt(variants.DIM), variants.SMALL
    spread = {"plain": 1.0, "scaled": root, "small": small, "small scaled": root * small}
    lines = [
        [first, factor, f"{spread[variant]:g}", *_reversed(runs(results, variant, task="reverse"))]
        for variant, first, factor in rows
    ]
    return table(
        [
            "standard deviation of new embeddings",
            "times √d",
            "standard deviation that positions are added to",
            "reversed, %",
            "steps until 99 %",
        ],
        lines,
    )


def base(results: Results) -> str:
    """Return the table of the base of the sinusoids."""
    lengths = variants.LENGTHS
    lines = []
    for value in sorted((*variants.BASES, 10_000)):
        variant = f"base {value:g}" if value in variants.BASES else "plain"
        selected = runs(results, variant, task="recall")
        cells = [
            _percent(selected, length, name) for name in ("left", "recall") for length in lengths
        ]
        pairs = f"{variants.full_circles(lengths[0], value)} of {variants.DIM // 2}"
        lines.append([f"{value:,.0f}", pairs, *cells])
    titles = [f"{name} at {length}" for name in ("left", "recall") for length in lengths]
    return table(["base", f"pairs that turn within {lengths[0]} tokens", *titles], lines)


def heads(results: Results) -> str:
    """Return the table of one head against several."""
    cost = {int(row["heads"]): row for row in results["head_cost"]}
    trained = {count: f"heads {count}" for count in variants.HEADS} | {4: "plain"}
    questions = [(name, length) for name in ("left", "recall") for length in (32, 64)]
    lines = []
    for count, row in cost.items():
        selected = runs(results, trained[count], task="recall") if count in trained else []
        cells = [
            _percent(selected, length, name) if selected else "–" for name, length in questions
        ]
        lines.append([str(count), f"{row['parameters']:,}", f"{row['ms']:.1f}", *cells])
    return table(
        [
            "heads",
            "parameters",
            "ms, forward and backward",
            *(f"{name} at {length}, %" for name, length in questions),
        ],
        lines,
    )


def reversing(results: Results) -> dict[str, list[Run]]:
    """Return the runs that reverse and were pruned, by name."""
    return {
        **{
            f"{scheme}, two layers": select(results, "reversal", "reverse", scheme)
            for scheme in PRUNED
        },
        "rope, six layers": runs(results, f"layers {variants.DEEP}"),
    }


def pruning(results: Results) -> str:
    """Return the table of how many heads can go."""
    lines = []
    for name, of_task in reversing(results).items():
        counts = [removable(of_task, order) for order in ORDERS]
        heads = len(of_task[0]["pruned"]["random"][0]) - 1
        lines.append(
            [name, str(heads), *("not learnt" if c is None else c.number(1) for c in counts)]
        )
    return table(["model", "heads", *ORDERS.values()], lines)


def removable(selected: list[Run], order: str) -> Range | None:
    """Return how many heads go before less than ENOUGH of the accuracy is left, by seed.

    For random orders the mean over them. None if a seed has not learnt the task.
    """
    if any(run["pruned"][order][0][0] < LEARNT for run in selected):
        return None

    def count(accuracies: list[float]) -> int:
        enough = [each >= ENOUGH * accuracies[0] for each in accuracies]
        return enough.index(False) - 1 if False in enough else len(enough) - 1

    def of_run(run: Run) -> float:
        orders = run["pruned"][order]
        return sum(map(count, orders)) / len(orders)

    return Range.over(selected, of_run)


def depth(results: Results) -> str:
    """Return the table of six layers against two."""
    lines = []
    for layers in (2, variants.DEEP):
        selected = runs(results, f"layers {layers}")
        lines.append([str(layers), f"{selected[0]['parameters']:,}", *_reversed(selected)])
    return table(["layers", "parameters", "reversed, %", "steps until 99 %"], lines)


def varied(results: Results) -> str:
    """Return the table of the reversal of varied length."""
    rows = (
        ("sinusoidal", "reverse"),
        ("learned", "reverse"),
        ("rope", "reverse"),
        ("rope", "reverse marked"),
    )
    lines = []
    for scheme, task in rows:
        selected = runs(results, "varied", task=task, scheme=scheme)
        name = f"{scheme}, ends marked" if task == "reverse marked" else scheme
        cells = [_percent(selected, length, "reverse") for length in variants.ASKED_VARIED]
        lines.append([name, *cells])
    return table(
        ["right tokens, %", *(f"{length} tokens" for length in variants.ASKED_VARIED)], lines
    )


def language(results: Results) -> str:
    """Return the table of perplexities of the causal model."""
    lines = []
    for scheme in causal.SCHEMES:
        selected = select(results, "causal", "next", scheme)
        cells = [unless_refused(selected, "perplexity", length) for length in causal.LENGTHS]
        blind = Range.over(selected, lambda run: run["blind"])
        lines.append(
            [
                scheme,
                *("refused" if each is None else each.number(2) for each in cells),
                blind.number(2),
            ]
        )
    return table(
        [
            "perplexity of a character",
            *(f"{length} characters" for length in causal.LENGTHS),
            f"{causal.TRAINED}, blinded",
        ],
        lines,
    )


def recall_error(results: Results) -> str:
    """Return the greatest standard error of "recall" in the comparisons, in points."""
    questions = (
        question_count(results, "variants", "recall", length) for length in variants.LENGTHS
    )
    return percent(sampling_error(0.5, min(questions)))


TABLES: Mapping[str, Callable[[Results], str]] = MappingProxyType(
    {
        "concatenation": concatenation,
        "scale": scale,
        "base": base,
        "one_head": heads,
        "pruning": pruning,
        "depth": depth,
        "varied": varied,
        "language": language,
    }
)
