"""Numbers of a comparison: scores, late interaction and evidence, from the engine's results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from headlight.comparison import CompareSpec, Evidence, PassageComparison
from headlight.interface.similarity import similarity
from headlight.outputs.vector_forms import halve
from headlight.results import TokenList
from headlight.runtime.comparison.comparison_layout import ComparisonLayout
from headlight.runtime.comparison.evidence_units import EvidenceUnits, largest
from headlight.runtime.comparison.late_interaction import (
    Matches,
    best_matches,
    matches,
    max_sim_mean,
    token_cosines,
    token_parts,
)
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.values import Array, Floats, Ids
from headlight.spec import Span


@dataclasses.dataclass(slots=True)
class EvidenceNumbers:
    """Evidence of one method.

    Attributes:
        units: the units, in the order of `weights`.
        weights: float32 [units].
        matched: of late interaction: the tokens that the query's tokens matched.
    """

    units: EvidenceUnits
    weights: Floats
    matched: Matches | None = None


@dataclasses.dataclass(slots=True)
class PassageNumbers:
    """Numbers of one passage: see `headlight.comparison.PassageComparison`."""

    index: int
    score: float
    max_sim_mean: float | None
    evidence: list[EvidenceNumbers]
    compared: Ids
    matrix: Array | None


class ComparisonNumbers:
    """Numbers of a comparison, which take the engine's results as they come.

    First `take_whole`, then `take_hidden` until all of the plan's occluded units are done, then
    `passages`.
    """

    def __init__(self, plan: ComparisonLayout) -> None:
        self._plan = plan
        self._query: Floats
        self._passages: list[PassageNumbers]
        self._similarities = list[float]()  # of the occluded units

    def take_whole(self, results: Sequence[ItemResult]) -> None:
        """Take the results of query and passages."""
        query, *passages = results
        self._query = query["pooled"]
        vectors = np.stack([each["pooled"] for each in passages])
        scores = similarity(self._plan.measure, self._query, vectors)[0].tolist()
        self._passages = [
            self._numbers(place, score, query, passage)
            for place, (score, passage) in enumerate(zip(scores, passages, strict=True))
        ]

    def take_hidden(self, vectors: Floats) -> None:
        """Take the vectors of the next occluded units: float32 [m, D]."""
        self._similarities += similarity(self._plan.measure, self._query, vectors)[0].tolist()

    def passages(self) -> list[PassageNumbers]:
        """Return the numbers of the passages, sorted and cut as the request says."""
        spec, at = self._plan.spec, 0
        for passage in self._passages:
            for wanted, found in zip(spec.evidence, passage.evidence, strict=True):
                if wanted.method == "occlusion":
                    hidden = self._similarities[at : at + len(found.units)]
                    found.weights = np.float32(passage.score) - np.array(hidden, np.float32)
                    at += len(hidden)
                if wanted.top_k is not None:
                    order = largest(found.weights, wanted.top_k)
                    found.units, found.weights = found.units.chosen(order), found.weights[order]
        if spec.sort:
            return sorted(self._passages, key=lambda each: -each.score)
        return self._passages

    def _numbers(
        self, place: int, score: float, query: ItemResult, passage: ItemResult
    ) -> PassageNumbers:
        spec, planned = self._plan.spec, self._plan.passages[place]
        cosines = matched = None
        if query.tokens is not None and passage.tokens is not None:
            if spec.matrix is None:
                matched = best_matches(query.tokens, passage.tokens)
            else:
                cosines = token_cosines(query.tokens, passage.tokens)
                matched = matches(cosines)
        numbers = PassageNumbers(place, score, None, [], planned.compared, None)
        if spec.late_interaction and matched is not None:
            numbers.max_sim_mean = max_sim_mean(matched)
        if spec.matrix is not None and cosines is not None:
            numbers.matrix = halve(cosines) if spec.matrix == "float16" else cosines
        for wanted, units in zip(spec.evidence, planned.units, strict=True):
            found = EvidenceNumbers(units, np.zeros(0, np.float32))
            if wanted.method == "late_interaction" and matched is not None:
                found.matched = Matches(planned.compared[matched.rows], matched.cosines)
                parts = token_parts(matched, len(planned.compared))
                found.weights = units.sums(_spread(parts, planned.compared))
            elif wanted.method == "attention" and passage.attention is not None:
                found.weights = units.sums(passage.attention)
            numbers.evidence.append(found)
        return numbers


def _spread(weights: Floats, tokens: Ids) -> Floats:
    """Return weights by token of the passage, zeros for all others."""
    whole = np.zeros(int(tokens[-1]) + 1 if len(tokens) else 0, np.float32)
    whole[tokens] = weights
    return whole


def passage_result(
    spec: CompareSpec, numbers: PassageNumbers, tokens: TokenList | None
) -> PassageComparison:
    """Return the comparison with one passage as plain values."""
    evidence = []
    for wanted, found in zip(spec.evidence, numbers.evidence, strict=True):
        characters, matched = found.units.characters, found.matched
        evidence.append(
            Evidence(
                wanted.method,
                found.units.each(),
                () if characters is None else tuple(Span(*each) for each in characters.T.tolist()),
                found.weights,
                () if matched is None else tuple(matched.rows.tolist()),
                None if matched is None else matched.cosines,
            )
        )
    return PassageComparison(
        numbers.index,
        numbers.score,
        numbers.max_sim_mean,
        tuple(evidence),
        tokens,
        tuple(numbers.compared.tolist()) if spec.token_vectors else (),
        numbers.matrix,
    )
