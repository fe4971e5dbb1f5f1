"""The evaluation as a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from headlight_model.evaluate.heads import CALLED, KINDS
from headlight_model.evaluate.order import Order
from headlight_model.evaluate.ranking import Interval
from headlight_model.evaluate.retrieval import LITTLE, Retrieval


@dataclasses.dataclass(frozen=True)
class Origin:
    """What the figures were measured with."""

    corpus_sha256: str
    python: str
    torch: str
    trained_on: dict[str, str]  # by model: digest of the corpus it learnt from


def page(origin: Origin, order: list[Order], retrieval: Retrieval) -> str:
    """The whole page, in Markdown."""
    parts = [_introduction(origin), _masked(order), _retrieval(retrieval), *(_heads(model) for model in order)]
    return "\n\n".join(parts) + "\n"


def _introduction(origin: Origin) -> str:
    other = [name for name, digest in origin.trained_on.items() if digest != origin.corpus_sha256]
    note = f" {', '.join(other)} learnt from another version of that library." if other else ""
    return (
        "# What the shipped models can do\n\n"
        f"`make evaluate`, Python {origin.python}, torch {origin.torch}. The corpus is that Python's own standard library, "
        f"SHA-256 `{origin.corpus_sha256}`.{note} Weights, vocabulary and word frequencies come from the training modules, "
        "weights of fusions from the validation modules; everything below is measured on the test modules, which are "
        "top-level modules of the library chosen by a hash of their names."
    )


def _masked(order: list[Order]) -> str:
    def shares(model: Order) -> list[str]:
        names = ("masked_accuracy", "positions_shuffled", "tokens_shuffled", "positions_ablated")
        keys = [name if name == names[0] else f"{names[0]}_{name}" for name in names]
        return [model.name, *(f"{model.masked[key]:.3f}" for key in keys), str(model.masked["masked_tokens"])]

    return (
        "## Hidden tokens\n\n"
        "Share of hidden tokens of source code guessed right. Shuffled: positions (or, which should come to the same, "
        "tokens) permuted between the ends of the window; ablated: all tokens at one position.\n\n"
        + _table(
            ["model", "as trained", "positions shuffled", "tokens shuffled", "positions ablated", "hidden tokens"],
            map(shares, order),
        )
    )


def _retrieval(found: Retrieval) -> str:
    rows = [
        [row.name, *(f"{x:.3f}" for x in (row.mrr, row.recall, row.mrr_little_overlap, row.recall_little_overlap))]
        for row in found.rows
    ]
    compared = [[c.better, c.than, _interval(c.by_query), _interval(c.by_module)] for c in found.comparisons]
    weights = ", ".join(f"{name}: {weight:.2f}" for name, weight in found.weights.items())
    return (
        "## Finding a function by the first sentence of its docstring\n\n"
        f"{found.candidates} candidates, {found.questions} questions from {found.modules} top-level modules (sentences that "
        "describe several functions are not asked). All contestants see the same text of a function: its name three times "
        "(once for raw words), its parameters, the words of its body without the docstring. Little overlap: the "
        f"{found.little_overlap} questions of whose stems the right answer holds at most {LITTLE:.0%}.\n\n"
        + _table(["contestant", "MRR@10", "Recall@10", "MRR@10, little overlap", "Recall@10, little overlap"], rows)
        + f"\n\nFusion: a weighted sum of standardised scores. Weight of the first part, by validation: {weights}.\n\n"
        "Differences in MRR@10, with 95 % intervals of a paired bootstrap that draws questions, and of one that draws "
        "whole modules:\n\n" + _table(["contestant", "less", "by question", "by module"], compared)
    )


def _heads(model: Order) -> str:
    rows = [
        [
            f"{head.layer}.{head.head}",
            *(f"{head.weight[kind]:.2f} / {head.strongest[kind]:.2f}" for kind in KINDS),
            head.name,
        ]
        for head in model.heads
    ]
    uniform = ", ".join(f"{kind} {model.uniform[kind]:.3f}" for kind in KINDS)
    return (
        f"## Heads of {model.name}\n\n"
        "Mean weight on such keys / share of tokens whose strongest weight falls on one. A head is called what holds for "
        f"at least {CALLED:.0%} of the tokens. A head that looks everywhere alike would have the weights {uniform}.\n\n"
        + _table(["layer.head", *KINDS, "called"], rows)
    )


def _interval(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
