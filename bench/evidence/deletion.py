"""Deletion curves: the score of a passage after the words with the largest weights are hidden."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.evidence.methods import METHODS, RANDOM, figure, other_passages
from bench.evidence.planted import SEED, Case
from headlight.comparison import EvidenceSpec
from headlight.evidence_methods import METHODS as TRAITS
from headlight.interface.similarity import similarity
from headlight.runtime import Runtime
from headlight.runtime.plans.plan import OccludedUnit, hidden_item
from headlight_model.evaluate.ranking import Floats

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of a passage's tokens
RANDOM_ORDERS = 5
BUDGET = 16  # encodings of occlusion that divides the best sentences
# Each inner tuple is one comparison, which has a method once.
VARIANTS = (
    tuple(EvidenceSpec(method=method, unit="word") for method in METHODS),
    tuple(
        EvidenceSpec(method=method, unit="word", per_token=True)
        for method in METHODS
        if TRAITS[method].sums and method not in ("occlusion", "attention")
    ),
    (EvidenceSpec(method="occlusion", unit="word", max_encodings=BUDGET, per_token=True),),
    tuple(
        EvidenceSpec(method=method, unit="word", distinct=True)
        for method in METHODS
        if TRAITS[method].distinct
    ),
)


def curves(
    runtime: Runtime, case: Case, others: Sequence[str], draw: random.Random
) -> dict[str, Floats]:
    """Return the scores with no token, then with each share of the tokens hidden, by method.

    Tokens are hidden in the order of their words' weights. So each method hides as many, whether
    its words are long or short; the last word may be cut. That of random is the mean of
    RANDOM_ORDERS orders of the words.
    """
    ranked = dict[str, list[int]]()
    words: Sequence[tuple[int, ...]] = ()
    for specs in VARIANTS:
        passages = (
            [case.passage, *others] if any(each.distinct for each in specs) else [case.passage]
        )
        comparison = runtime.compare(case.query, passages, evidence=specs, truncate="end")
        for spec, each in zip(specs, comparison.passages[0].evidence, strict=True):
            order = np.argsort(-each.weights, kind="stable").tolist()
            ranked[name_of(spec)] = [token for at in order for token in each.units[at]]
            words = each.units if spec.max_encodings is None else words
    orders = [*ranked.values()]
    for _ in range(RANDOM_ORDERS):
        shuffled = draw.sample(words, len(words))
        orders.append([token for word in shuffled for token in word])
    scores = hidden_scores(runtime, case, orders)
    whole = np.full((len(orders), 1), comparison.passages[0].score)
    rows = np.concatenate([whole, scores], axis=1)
    return {name: rows[at] for at, name in enumerate(ranked)} | {
        RANDOM: rows[len(ranked) :].mean(axis=0)
    }


def name_of(spec: EvidenceSpec) -> str:
    """Return the name of a row."""
    parts = [spec.method.replace("_", " ")]
    parts += ["per token"] if spec.per_token else []
    parts += ["distinct"] if spec.distinct else []
    parts += [] if spec.max_encodings is None else [f"at most {spec.max_encodings} encodings"]
    return ", ".join(parts)


def hidden_scores(runtime: Runtime, case: Case, orders: Sequence[list[int]]) -> Floats:
    """Return the score of the passage with each share of its tokens hidden: [orders, shares]."""
    selection = runtime.select()
    query, passage = runtime.prepare(
        [case.query, case.passage],
        selection,
        with_info=False,
        prompt_name=None,
        prompt=None,
        head_mask=None,
        truncation="refuse",
        special_tokens="parse",
    )
    items = [query.item]
    for order in orders:
        for share in SHARES:
            hidden = order[: round(share * len(order))]
            items.append(
                hidden_item(passage.item, OccludedUnit(0, tuple(sorted(hidden))), selection)
            )
    results = runtime.engine.run_in_batches(items)
    vectors = np.stack([each.pooled for each in results if each.pooled is not None])
    scores = similarity(runtime.bundle.manifest.similarity, vectors[0], vectors[1:])
    return scores.reshape(len(orders), len(SHARES)).astype(np.float64)


def area(method: Floats, chance: Floats) -> float:
    """Return the area between a method's curve and that of random, over the widest share.

    It is the mean difference in score; above 0: the method's words matter more than random ones.
    """
    return float(np.trapezoid(chance - method, (0.0, *SHARES)) / SHARES[-1])


def measure(runtime: Runtime, cases: Sequence[Case], seed: int = SEED) -> list[dict[str, Any]]:
    """Return the mean curve of each method by task and group, and its area.

    Cases that the model would cut are left out.
    """
    draw, by_name = random.Random(seed), defaultdict[tuple[str, str, str], list[Floats]](list)
    most = runtime.model().max_length
    for case, others in zip(cases, other_passages(cases), strict=True):
        if len(runtime.tokenize(case.passage)[0]) > most:
            continue
        for name, curve in curves(runtime, case, others, draw).items():
            by_name[case.task, case.group, name].append(curve)
    rows = []
    for (task, group, name), curves_of_name in by_name.items():
        chance = by_name[task, group, RANDOM]
        points = [figure(list(column)) for column in np.array(curves_of_name).T]
        areas = [area(one, other) for one, other in zip(curves_of_name, chance, strict=True)]
        row = {"task": task, "group": group, "name": name, "cases": len(curves_of_name)}
        rows.append({**row, "curve": points, "area": figure(areas)})
    return rows
