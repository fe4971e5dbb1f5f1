"""All contestants on a retrieval task, and the comparisons between them."""

from __future__ import annotations

import dataclasses

import torch

from headlight_model.evaluate import lexical
from headlight_model.evaluate.compression import compressed
from headlight_model.evaluate.neural import Beginnings, Shipped
from headlight_model.evaluate.ranking import (
    Floats,
    Interval,
    best_weight,
    bootstrap,
    fuse,
    hits,
    ranks,
    reciprocal_ranks,
)
from headlight_model.evaluate.task import Task
from headlight_model.texts.functions import NAME_WEIGHT

LITTLE = 1 / 4  # share of a question's stems in its answer that lexical search hardly finds
BM25 = "BM25, stemmed, name weighted"
WORDS = "mean of trained word vectors"


@dataclasses.dataclass(frozen=True)
class Row:
    """Metrics of one contestant."""

    name: str
    mrr: float  # at 10, of all questions
    recall: float  # at 10
    first: float  # share of the questions whose right answer comes first
    mrr_little_overlap: float  # of the questions that share few words with their answer


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Mean difference in reciprocal rank at 10 of two contestants."""

    better: str
    than: str
    by_query: Interval
    by_group: Interval


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """Everything measured on one task."""

    name: str
    candidates: int
    questions: int
    groups: int  # packages, or top-level modules
    little_overlap: int  # questions
    rows: list[Row]
    comparisons: list[Comparison]


def measure(
    name: str, task: Task, models: list[Shipped], scored: dict[str, Floats], weight: float
) -> Retrieval:
    """Rank the candidates with all contestants, and compare the first model with the others.

    Args:
        scored: scores of the task's baselines, as `baselines` returns.
        weight: of the first model beside BM25, as `fusion_weight` returns.
    """
    scores = lexical_scores(task) | scored
    for place, model in enumerate(models):
        scores |= variants(model, task) if place == 0 else {model.name: model.scores(task)}
    scores[f"{models[0].name} + BM25"] = fuse(scores[models[0].name], scores[BM25], weight)
    of_rank = {
        contestant: ranks(values, task.answers, task.also) for contestant, values in scores.items()
    }
    gains = {contestant: reciprocal_ranks(rank) for contestant, rank in of_rank.items()}
    little = lexical.overlap(task) <= LITTLE
    rows = [
        Row(
            contestant,
            float(gains[contestant].mean()),
            float(hits(rank).mean()),
            float((rank == 1).mean()),
            float(gains[contestant][little].mean()) if little.any() else 0.0,
        )
        for contestant, rank in of_rank.items()
    ]
    rivals = [rival for rival in gains if rival != models[0].name]
    comparisons = []
    for than in rivals:
        difference = gains[models[0].name] - gains[than]
        intervals = bootstrap(difference), bootstrap(difference, task.groups)
        comparisons.append(Comparison(models[0].name, than, *intervals))
    counts = len(task.candidates), len(task.answers), len(set(task.groups)), int(little.sum())
    return Retrieval(name, *counts, rows, comparisons)


def lexical_scores(task: Task) -> dict[str, Floats]:
    """Return scores [Q, C] of lexical search."""
    return {
        "BM25, raw words": lexical.bm25(task, lexical.raw_words, name_weight=1),
        BM25: lexical.bm25(task),
        "TF-IDF, stemmed, name weighted": lexical.tf_idf(task),
    }


def fusion_weight(model: Shipped, validation: Task) -> float:
    """Return the weight of a model beside BM25 that is best on a task of the validation part."""
    return best_weight(model.scores(validation), lexical.bm25(validation), validation.answers)


def baselines(beginnings: Beginnings, tasks: dict[str, Task]) -> dict[str, dict[str, Floats]]:
    """Return scores [Q, C], by task and contestant, of a model before its training."""
    scores = {
        task: {f"{beginnings.name} untrained": beginnings.untrained(each)}
        for task, each in tasks.items()
    }
    beginnings.learn_words()
    for task, each in tasks.items():
        scores[task] |= {
            WORDS: beginnings.words(each, 1),
            f"{WORDS}, name weighted": beginnings.words(each, NAME_WEIGHT),
        }
    return scores


@torch.inference_mode()
def variants(model: Shipped, task: Task) -> dict[str, Floats]:
    """Return scores [Q, C] of a model: whole, without order, without each layer, compressed."""
    queries, documents = (model.vectors(rows).double().numpy() for rows in model.texts(task))
    scores: dict[str, Floats] = {model.name: queries @ documents.T}
    scores[f"{model.name}, tokens shuffled"] = model.scores_without_order(task)
    for layer in range(model.encoder.config.layers):
        with model.without_layer(layer):
            scores[f"{model.name}, without layer {layer}"] = model.scores(task)
    small = compressed(queries, documents, tuple(model.facts["recipe"].get("widths", ())))
    return scores | {f"{model.name}, {form}": values for form, values in small.items()}
