"""Weights of a passage's sentences by each method, and the share of cases that each method hits.

Shares are means with 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import bm25s
import numpy as np

from bench.evidence.planted import Case
from headlight.comparison import Evidence, EvidenceMethod, EvidenceSpec
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


METHODS: tuple[EvidenceMethod, ...] = ("late_interaction", "occlusion", "attention")
LAST_LAYER = "attention, last layer"
ALONE = "each sentence encoded alone"
RANDOM = "random"
LONGEST = "longest sentence"
BM25 = "BM25 of sentences"
CONTESTANTS = (*METHODS, LAST_LAYER, ALONE, RANDOM, LONGEST, BM25)
DEPTHS = (1, 3)  # hit@1, hit@3


def sentence_weights(runtime: Runtime, case: Case) -> dict[str, Floats]:
    """Return the weight of each sentence of a case, by contestant; equal weights are ties."""
    specs = [EvidenceSpec(method=method, unit="sentence") for method in METHODS]
    last = EvidenceSpec(method="attention", unit="sentence", layers=(-1,))
    [comparison] = runtime.compare(case.query, [case.passage], evidence=specs)
    [of_last] = runtime.compare(case.query, [case.passage], evidence=last)
    named: dict[str, Evidence] = {each.method: each for each in comparison.evidence}
    named[LAST_LAYER] = of_last.evidence[0]
    weights = {name: each.weights.astype(np.float64) for name, each in named.items()}
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


def measure(runtime: Runtime, cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Return the hits of each contestant, by task and group."""
    hits = defaultdict[tuple[str, str, str], list[tuple[float, ...]]](list)
    for case in cases:
        weights = sentence_weights(runtime, case)
        for name in CONTESTANTS:
            if len(weights[name]) != len(case.sentences):
                raise ValueError(f"{name} found {len(weights[name])} sentences in {case.passage!r}")
            hits_of_case = tuple(hit(weights[name], case.answer, depth) for depth in DEPTHS)
            hits[case.task, case.group, name].append(hits_of_case)
    rows = []
    for (task, group, name), values in hits.items():
        random = hits[task, group, RANDOM]
        row: dict[str, Any] = {"task": task, "group": group, "name": name, "cases": len(values)}
        for at, depth in enumerate(DEPTHS):
            hits_at_depth = [each[at] for each in values]
            row[f"hit@{depth}"] = figure(hits_at_depth)
            row[f"hit@{depth} over random"] = figure(
                [mine - chance[at] for mine, chance in zip(hits_at_depth, random, strict=True)]
            )
        rows.append(row)
    return rows
