"""Deletion curves: the score of a passage after the words with the largest weights are hidden."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bench.evidence.methods import METHODS, RANDOM, figure
from bench.evidence.planted import SEED, Case
from headlight.comparison import EvidenceSpec
from headlight.interface.similarity import similarity
from headlight.runtime import Runtime
from headlight.runtime.plans.plan import OccludedUnit, hidden_item
from headlight_model.evaluate.ranking import Floats

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of a passage's words
RANDOM_ORDERS = 5


def curves(runtime: Runtime, case: Case, draw: random.Random) -> dict[str, Floats]:
    """Return the scores with no word, then with each share of the words hidden, by method.

    That of random is the mean of RANDOM_ORDERS orders.
    """
    specs = [EvidenceSpec(method=method, unit="word") for method in METHODS]
    [comparison] = runtime.compare(case.query, [case.passage], evidence=specs)
    units = comparison.evidence[0].units
    orders = {each.method: np.argsort(-each.weights, kind="stable") for each in comparison.evidence}
    names = [each.method for each in comparison.evidence]
    ranked = [orders[name].tolist() for name in names]
    ranked += [draw.sample(range(len(units)), len(units)) for _ in range(RANDOM_ORDERS)]
    scores = hidden_scores(runtime, case, units, ranked)
    whole = np.full((len(ranked), 1), comparison.score)
    rows = np.concatenate([whole, scores], axis=1)
    return {name: rows[at] for at, name in enumerate(names)} | {
        RANDOM: rows[len(names) :].mean(axis=0)
    }


def hidden_scores(
    runtime: Runtime, case: Case, units: Sequence[tuple[int, ...]], orders: Sequence[list[int]]
) -> Floats:
    """Return the score of the passage with each share of its units hidden: [orders, shares]."""
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
            hidden = [token for unit in order[: round(share * len(units))] for token in units[unit]]
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


def measure(runtime: Runtime, cases: Iterable[Case], seed: int = SEED) -> list[dict[str, Any]]:
    """Return the mean curve of each method by task and group, and its area."""
    draw, by_name = random.Random(seed), defaultdict[tuple[str, str, str], list[Floats]](list)
    for case in cases:
        for name, curve in curves(runtime, case, draw).items():
            by_name[case.task, case.group, name].append(curve)
    rows = []
    for (task, group, name), curves_of_name in by_name.items():
        chance = by_name[task, group, RANDOM]
        points = [figure(list(column)) for column in np.array(curves_of_name).T]
        areas = [area(one, other) for one, other in zip(curves_of_name, chance, strict=True)]
        row = {"task": task, "group": group, "name": name, "cases": len(curves_of_name)}
        rows.append({**row, "curve": points, "area": figure(areas)})
    return rows
