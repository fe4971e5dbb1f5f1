"""Markdown report of the evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from headlight_model.evaluate.heads import CALLED
from headlight_model.evaluate.order import Order
from headlight_model.evaluate.ranking import Interval
from headlight_model.evaluate.retrieval import LITTLE, Retrieval
from headlight_model.train.attention_roles import ROLES


@dataclasses.dataclass(frozen=True)
class Origin:
    """Corpus and versions that the figures were measured with."""

    corpus_sha256: str
    python: str
    torch: str
    fusion_weight: float  # of the first model beside BM25, from the validation part
    trained_on: dict[str, str]  # by model: digest of the corpus it learnt from


def page(origin: Origin, order: list[Order], retrieval: list[Retrieval]) -> str:
    """Return the whole page, in Markdown."""
    parts = [
        _introduction(origin),
        *map(_retrieval, retrieval),
        _pairs(order),
        _masked(order),
        *map(_heads, order),
    ]
    return "\n\n".join(parts) + "\n"


def _introduction(origin: Origin) -> str:
    other = [name for name, digest in origin.trained_on.items() if digest != origin.corpus_sha256]
    note = f" {', '.join(other)} trained on another corpus." if other else ""
    return (
        "# What the shipped models can do\n\n"
        f"`nox -s evaluate`, Python {origin.python}, torch {origin.torch}. The corpus is that "
        "Python's standard library and the pinned packages "
        f"(headlight_model/train/data/corpus.json), SHA-256 `{origin.corpus_sha256}`.{note} "
        "Weights, vocabulary and word frequencies come from the training part. Everything below "
        "is measured on packages and library modules that were not used in training; "
        "only the questions by hand are about the whole library. Beside BM25, the model's "
        f"standardised scores have the weight {origin.fusion_weight:.2f} of 1, the best on the "
        "validation packages."
    )


def _masked(order: list[Order]) -> str:
    def shares(model: Order) -> list[str]:
        names = ("masked_accuracy", "positions_shuffled", "tokens_shuffled", "positions_ablated")
        keys = [name if name == names[0] else f"{names[0]}_{name}" for name in names]
        return [
            model.name,
            *(f"{model.masked[key]:.3f}" for key in keys),
            str(model.masked["masked_tokens"]),
        ]

    return (
        "## Hidden tokens\n\n"
        "Share of hidden tokens of source code guessed right. Shuffled: positions (or, which "
        "should come to the same, tokens) permuted between the ends of the window; ablated: "
        "all tokens at one position.\n\n"
        + _table(
            [
                "model",
                "as trained",
                "positions shuffled",
                "tokens shuffled",
                "positions ablated",
                "hidden tokens",
            ],
            map(shares, order),
        )
    )


def _pairs(order: list[Order]) -> str:
    families = list(order[0].pairs.by_family)
    rows = [
        [
            model.name,
            *(
                f"{share:.3f}"
                for share in (model.pairs.all, model.pairs.trained, model.pairs.kept_back)
            ),
            *(f"{model.pairs.by_family[family]:.3f}" for family in families),
        ]
        for model in order
    ]
    return (
        "## Questions that only order tells apart\n\n"
        f'{order[0].pairs.questions} questions like "subtract a from b", with two answers of the '
        "same words, `b - a` and "
        "`a - b`. Share of right choices; a bag of words has 0.5. Words are never those of "
        "training; templates are in part.\n\n"
        + _table(["model", "all", "known templates", "new templates", *families], rows)
    )


def _retrieval(task: Retrieval) -> str:
    rows = [
        [row.name, *(f"{x:.3f}" for x in (row.mrr, row.recall, row.first, row.mrr_little_overlap))]
        for row in task.rows
    ]
    compared = [
        [c.better, c.than, _interval(c.by_query), _interval(c.by_group)] for c in task.comparisons
    ]
    return (
        f"## Finding a function: {task.name}\n\n"
        f"{task.candidates} candidates, {task.questions} questions, {task.groups} packages or "
        "top-level modules. A candidate is its module, name, parameters and the words of its "
        "body, never its docstring. Questions are first sentences of docstrings (those that "
        "describe several functions are not asked), or written by hand. Little overlap: the "
        f"{task.little_overlap} questions of whose stems the right answer holds at most "
        f"{LITTLE:.0%}.\n\n"
        + _table(["contestant", "MRR@10", "Recall@10", "first", "MRR@10, little overlap"], rows)
        + "\n\nDifferences in MRR@10, with 95 % intervals of a paired bootstrap that draws "
        "questions, and of one that draws whole packages or modules:\n\n"
        + _table(["contestant", "less", "by question", "by package"], compared)
    )


def _heads(model: Order) -> str:
    rows = [
        [
            f"{head.layer}.{head.head}",
            *(f"{head.weight[kind]:.2f} / {head.strongest[kind]:.2f}" for kind in ROLES),
            head.name,
            f"{lost:+.4f}",
        ]
        for head, lost in zip(model.heads, model.importance, strict=True)
    ]
    uniform = ", ".join(f"{kind} {model.uniform[kind]:.3f}" for kind in ROLES)
    return (
        f"## Heads of {model.name}\n\n"
        "Mean weight on such keys / share of tokens whose strongest weight falls on one. "
        f"A head is called the first kind that holds for at least {CALLED:.0%} of its tokens. "
        f"A head that looks everywhere alike would have the weights {uniform}. Loss: what masked "
        "accuracy falls by when what the head contributes is removed.\n\n"
        + _table(["layer.head", *ROLES, "called", "loss"], rows)
    )


def _interval(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
