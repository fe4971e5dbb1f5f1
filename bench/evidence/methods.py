"""Weights of a passage's sentences by each method, and the share of cases that each method hits.

Shares are means with 95 % bootstrap intervals.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import bm25s
import numpy as np

from bench.evidence.planted import SEED, Case
from headlight.comparison import Evidence, EvidenceSpec
from headlight.evidence_methods import METHODS as TRAITS
from headlight.evidence_methods import UNIT_METHODS, EvidenceMethod
from headlight.runtime import Runtime
from headlight_model.evaluate.lexical import NOTHING, stems
from headlight_model.evaluate.ranking import DIGITS, Floats, bootstrap


class Figure(TypedDict):
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float


def figure(values: Sequence[float], groups: Sequence[str] | None = None) -> Figure:
    """Return the mean of values, one for each case; `groups`: draw whole groups of cases."""
    interval = bootstrap(np.array(values, np.float64), groups)
    return {
        "mean": round(interval.mean, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


def shown(interval: Figure, sign: str = "") -> str:
    """Return a figure as a cell of a table; `sign` "+": a difference."""
    mean, low, high = (
        f"{value:{sign}.3f}" for value in (interval["mean"], interval["low"], interval["high"])
    )
    return f"{mean} [{low}, {high}]"


METHODS: tuple[EvidenceMethod, ...] = UNIT_METHODS  # of models that pool by mean
PER_TOKEN, DISTINCT = ", per token", ", distinct"
LAST_LAYER = "attention, last layer"
ALONE = "each sentence encoded alone"
RANDOM = "random"
LONGEST = "longest sentence"
BM25 = "BM25 of sentences"
CONTESTANTS = (
    *(name for each in METHODS for name in (each, each + PER_TOKEN) if name != "span" + PER_TOKEN),
    *(
        each + DISTINCT + share
        for each in METHODS
        if TRAITS[each].distinct
        for share in ("", PER_TOKEN)
    ),
    *(LAST_LAYER, ALONE, RANDOM, LONGEST, BM25),
)
DEPTHS = (1, 3)  # hit@1, hit@3
OTHERS = 9  # passages beside the one of a case, for what is distinct
LENGTHS = ("short", "medium", "long")  # answers, by thirds of their characters
PLACES = ("first", "middle", "last")  # thirds of a passage, where the answer stands
Weights = dict[str, Floats]


def sentence_weights(runtime: Runtime, case: Case, others: Sequence[str]) -> Weights:
    """Return the weight of each sentence of a case, by contestant; equal weights are ties.

    `others`: passages of other cases.
    """
    specs = [EvidenceSpec(method=method, unit="sentence") for method in METHODS]
    last = EvidenceSpec(method="attention", unit="sentence", layers=(-1,))
    distinct = [
        EvidenceSpec(method=method, unit="sentence", distinct=True)
        for method in METHODS
        if TRAITS[method].distinct
    ]
    [comparison] = runtime.compare(case.query, [case.passage], evidence=specs)
    [of_last] = runtime.compare(case.query, [case.passage], evidence=last)
    among = runtime.compare(case.query, [case.passage, *others], evidence=distinct, truncate="end")
    named: dict[str, Evidence] = {each.method: each for each in comparison.evidence}
    named |= {each.method + DISTINCT: each for each in among.passages[0].evidence}
    weights = {name: each.weights.astype(np.float64) for name, each in named.items()}
    for name, each in named.items():
        weights[name + PER_TOKEN] = weights[name] / [len(tokens) for tokens in each.units]
    weights[LAST_LAYER] = of_last.evidence[0].weights.astype(np.float64)
    query, *alone = runtime.encode([case.query, *case.sentences])
    count = len(case.sentences)
    return weights | {
        ALONE: np.array(alone, np.float64) @ query,
        RANDOM: np.zeros(count),
        LONGEST: np.array([len(each) for each in case.sentences], np.float64),
        BM25: bm25(case.query, case.sentences),
    }


def bm25(query: str, sentences: Sequence[str]) -> Floats:
    """Return the BM25 scores of a passage's sentences, which are the whole collection: [S]."""
    documents = [stems(each) or [NOTHING] for each in sentences]
    index = bm25s.BM25(method="lucene")
    index.index(documents, show_progress=False)
    known = {term for document in documents for term in document}
    terms = [term for term in stems(query) if term in known]
    return index.get_scores(terms).astype(np.float64) if terms else np.zeros(len(documents))


def hit(weights: Floats, answer: int, depth: int) -> float:
    """Return the probability that the answer is among the `depth` largest; ties are drawn."""
    rounded = np.round(weights, DIGITS)
    larger = int((rounded > rounded[answer]).sum())
    equal = int((rounded == rounded[answer]).sum())
    return min(1.0, max(0.0, (depth - larger) / equal))


def other_passages(cases: Sequence[Case], seed: int = SEED) -> list[list[str]]:
    """Return OTHERS passages for each case, of other cases of its task."""
    draw, passages = random.Random(seed), list[list[str]]()
    for case in cases:
        pool = [each.passage for each in cases if each.task == case.task and each is not case]
        passages.append(draw.sample(pool, min(OTHERS, len(pool))))
    return passages


def measure(runtime: Runtime, cases: Sequence[Case]) -> dict[str, list[dict[str, Any]]]:
    """Return the hits of each contestant, by task and group, and by the answer's kind.

    Cases that the model would cut are left out.
    """
    most = runtime.model().max_length
    lengths = [len(each) for each in runtime.tokenize([case.passage for case in cases])]
    kept = [case for case, length in zip(cases, lengths, strict=True) if length <= most]
    hits = defaultdict[tuple[str, str, str], list[tuple[float, ...]]](list)
    kinds = defaultdict[tuple[str, str], list[float]](list)
    sizes = [len(case.sentences[case.answer]) for case in kept]
    bounds = np.quantile(sizes, (1 / 3, 2 / 3))
    for case, size, others in zip(kept, sizes, other_passages(kept), strict=True):
        weights = sentence_weights(runtime, case, others)
        third = min(2, case.answer * 3 // len(case.sentences))
        of_case = LENGTHS[int(np.searchsorted(bounds, size))], PLACES[third]
        for name in CONTESTANTS:
            if len(weights[name]) != len(case.sentences):
                raise ValueError(f"{name} found {len(weights[name])} sentences in {case.passage!r}")
            hits_of_case = tuple(hit(weights[name], case.answer, depth) for depth in DEPTHS)
            hits[case.task, case.group, name].append(hits_of_case)
            for kind in ("all", *of_case):
                kinds[name, kind].append(hits_of_case[0])
    return {"rows": _rows(hits), "kinds": _kinds(kinds)}


def _kinds(kinds: Mapping[tuple[str, str], Sequence[float]]) -> list[dict[str, Any]]:
    """Return a row for each contestant: hit@1 over all cases, and by the answer's kind."""
    return [
        {
            "name": name,
            "cases": len(kinds[name, "all"]),
            **{kind: figure(kinds[name, kind]) for kind in ("all", *LENGTHS, *PLACES)},
            "over random": figure(
                [
                    one - other
                    for one, other in zip(kinds[name, "all"], kinds[RANDOM, "all"], strict=True)
                ]
            ),
        }
        for name in CONTESTANTS
    ]


def _rows(
    hits: Mapping[tuple[str, str, str], Sequence[tuple[float, ...]]],
) -> list[dict[str, Any]]:
    rows = []
    for (task, group, name), values in hits.items():
        by_chance = hits[task, group, RANDOM]
        row: dict[str, Any] = {"task": task, "group": group, "name": name, "cases": len(values)}
        for at, depth in enumerate(DEPTHS):
            hits_at_depth = [each[at] for each in values]
            row[f"hit@{depth}"] = figure(hits_at_depth)
            row[f"hit@{depth} over random"] = figure(
                [mine - chance[at] for mine, chance in zip(hits_at_depth, by_chance, strict=True)]
            )
        rows.append(row)
    return rows
