"""All contestants on the retrieval task, and the comparisons between them."""

from __future__ import annotations

import dataclasses

from headlight_model.evaluate import lexical
from headlight_model.evaluate.neural import Beginnings, Shipped
from headlight_model.evaluate.ranking import (
    Floats,
    Interval,
    best_weight,
    bootstrap,
    found,
    fuse,
    ranks,
    reciprocal_ranks,
)
from headlight_model.evaluate.task import Task, retrieval_task
from headlight_model.train.data.corpus import Part

LITTLE = 1 / 4  # of a question's stems in its answer: what words alone hardly find
BM25 = "BM25, stemmed, name weighted"
WORDS = "mean of trained word vectors"


@dataclasses.dataclass(frozen=True)
class Row:
    """One contestant."""

    name: str
    mrr: float  # at 10, of all questions
    recall: float  # at 10
    mrr_little_overlap: float  # of the questions that share few words with their answer
    recall_little_overlap: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Mean difference in reciprocal rank at 10 of two contestants."""

    better: str
    than: str
    by_query: Interval
    by_module: Interval


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """Everything measured."""

    candidates: int
    questions: int
    modules: int  # top-level
    little_overlap: int  # questions
    rows: list[Row]
    weights: dict[str, float]  # of the encoder in each fusion, chosen on the validation modules
    comparisons: list[Comparison]


def measure(models: list[Shipped]) -> Retrieval:
    """Run all contestants on the test modules; weights of fusions come from the validation modules."""
    chosen_on, task = retrieval_task(Part.VALIDATION), retrieval_task(Part.TEST)
    of_validation, of_test = contestants(models, chosen_on, task)
    weights = {}
    for name in (*(model.name for model in models), WORDS):
        fusion = f"{name} + BM25"
        weights[fusion] = best_weight(of_validation[name], of_validation[BM25], chosen_on.asked)
        of_test[fusion] = fuse(of_test[name], of_test[BM25], weights[fusion])
    of_rank = {name: ranks(scores, task.asked) for name, scores in of_test.items()}
    little = lexical.overlap(task) <= LITTLE
    gains = {name: reciprocal_ranks(rank) for name, rank in of_rank.items()}
    rows = [
        Row(
            name,
            float(gains[name].mean()),
            float(found(rank).mean()),
            float(gains[name][little].mean()),
            float(found(rank)[little].mean()),
        )
        for name, rank in of_rank.items()
    ]
    pairs = [pair for model in models for pair in rivals(model.name)]
    comparisons = []
    for better, than in pairs:
        difference = gains[better] - gains[than]
        comparisons.append(Comparison(better, than, bootstrap(difference), bootstrap(difference, task.modules)))
    return Retrieval(
        len(task.candidates), len(task.asked), len(set(task.modules)), int(little.sum()), rows, weights, comparisons
    )


def rivals(name: str) -> list[tuple[str, str]]:
    """The comparisons that say what a model is worth."""
    fusion = f"{name} + BM25"
    return [(fusion, BM25), (name, BM25), (name, WORDS), (fusion, f"{WORDS} + BM25"), (name, without_order(name))]


def without_order(name: str) -> str:
    """What a model is called when it sees shuffled tokens."""
    return f"{name}, tokens shuffled"


def contestants(models: list[Shipped], *tasks: Task) -> tuple[dict[str, Floats], ...]:
    """Scores [Q, C] by name, for each task."""
    scores: tuple[dict[str, Floats], ...] = tuple({} for _ in tasks)
    beginnings = Beginnings(models[0])
    untrained = beginnings.untrained(*tasks)
    beginnings.learn_words()
    words = beginnings.words(*tasks)
    for place, task in enumerate(tasks):
        named = scores[place]
        named["BM25, raw words"] = lexical.bm25(task, lexical.raw_words, name_weight=1)
        named[BM25] = lexical.bm25(task)
        named["TF-IDF, stemmed, name weighted"] = lexical.tf_idf(task)
        named[f"{models[0].name} untrained"] = untrained[place]
        named[WORDS] = words[place]
        for model in models:
            named[model.name] = model.scores(task)
            named[without_order(model.name)] = model.scores_without_order(task)
    return scores
