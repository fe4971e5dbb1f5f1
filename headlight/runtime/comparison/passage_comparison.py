"""Numbers of a comparison: scores, late interaction and evidence, from the engine's results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from headlight.comparison import (
    MAX_SIM,
    CompareSpec,
    Evidence,
    MatchedTerms,
    PassageComparison,
    UnitWeights,
)
from headlight.interface.similarity import similarity
from headlight.outputs.vector_forms import halve
from headlight.results import TokenList
from headlight.runtime.comparison.comparison_layout import ComparisonLayout, PlannedUnits
from headlight.runtime.comparison.evidence_units import EvidenceUnits, largest
from headlight.runtime.comparison.late_interaction import (
    Matches,
    best_matches,
    matches,
    max_sim,
    max_sim_mean,
    token_cosines,
    token_parts,
)
from headlight.runtime.comparison.term_matches import TermMatches, term_matches
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.plans.plan import pooled_rows
from headlight.runtime.spelling import Spelling
from headlight.runtime.values import Array, Floats, Ids
from headlight.spec import Span


@dataclasses.dataclass(slots=True)
class UnitNumbers:
    """Units, and their weights: float32 [units], in their order."""

    units: EvidenceUnits
    weights: Floats

    def keep_largest(self, count: int) -> None:
        """Keep this many units, the largest weights first."""
        order = largest(self.weights, count)
        self.units, self.weights = self.units.chosen(order), self.weights[order]


@dataclasses.dataclass(slots=True)
class EvidenceNumbers(UnitNumbers):
    """Evidence of one method: the units of the passage, and of a pair its other units.

    Attributes:
        matched: of late interaction: the tokens that the query's tokens matched.
        query, special: of a pair; see `PlannedUnits`.
        terms: of evidence by terms: the shared ones.
    """

    matched: Matches | None = None
    query: UnitNumbers | None = None
    special: UnitNumbers | None = None
    terms: TermMatches | None = None

    @property
    def sides(self) -> list[UnitNumbers]:
        """The units that are chosen and hidden: of the passage, and of the query in a pair."""
        return [self] if self.query is None else [self, self.query]


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
        self._query: ItemResult
        self._passages: list[PassageNumbers]
        self._hidden_scores = list[float]()  # of the occluded units

    def take_whole(self, results: Sequence[ItemResult]) -> None:
        """Take the results of query and passages, or of the pairs."""
        query, *passages = results
        if self._plan.of_pairs:
            passages = list(results)
        self._query = query
        self._passages = [
            self._numbers(place, score, query, passage)
            for place, (score, passage) in enumerate(
                zip(self._scores(passages), passages, strict=True)
            )
        ]

    def take_hidden(self, results: Sequence[ItemResult]) -> None:
        """Take the results of the next occluded units."""
        self._hidden_scores += self._scores(results)

    def passages(self) -> list[PassageNumbers]:
        """Return the numbers of the passages, sorted and cut as the request says."""
        spec, at = self._plan.spec, 0
        for passage in self._passages:
            for each, evidence in zip(spec.evidence, passage.evidence, strict=True):
                for side in evidence.sides if evidence.terms is None else ():
                    if each.method == "occlusion":
                        hidden = self._hidden_scores[at : at + len(side.units)]
                        side.weights = np.float32(passage.score) - np.array(hidden, np.float32)
                        at += len(hidden)
                    if each.top_k is not None:
                        side.keep_largest(each.top_k)
        if spec.sort:
            return sorted(self._passages, key=lambda each: -each.score)
        return self._passages

    def _scores(self, results: Sequence[ItemResult]) -> list[float]:
        if self._plan.of_pairs:
            logits: list[float] = np.stack([each["scores"] for each in results])[:, 0].tolist()
            return logits
        if self._plan.output == "sparse":
            return [term_matches(self._query, each).score for each in results]
        if self._plan.measure == MAX_SIM:
            vectors = self._query["multi_vector"]
            return [max_sim(vectors, each["multi_vector"]) for each in results]
        query, rows = self._query["pooled"], pooled_rows(results)
        similarities: list[float] = similarity(self._plan.measure, query, rows)[0].tolist()
        return similarities

    def _numbers(
        self, place: int, score: float, query: ItemResult, passage: ItemResult
    ) -> PassageNumbers:
        spec, planned = self._plan.spec, self._plan.passages[place]
        cosines = matched = None
        if spec.token_vectors:
            sides = query[self._plan.vectors], passage[self._plan.vectors]
            if spec.matrix is None:
                matched = best_matches(*sides)
            else:
                cosines = token_cosines(*sides)
                matched = matches(cosines)
        numbers = PassageNumbers(place, score, None, [], planned.compared, None)
        if spec.late_interaction and matched is not None:
            numbers.max_sim_mean = max_sim_mean(matched)
        if spec.matrix is not None and cosines is not None:
            numbers.matrix = halve(cosines) if spec.matrix == "float16" else cosines
        for each, units in zip(spec.evidence, planned.units, strict=True):
            evidence = _unweighted(units)
            if each.method == "terms":
                evidence.terms = term_matches(query, passage).largest(each.top_k)
                evidence.weights = evidence.terms.products
            elif each.method == "late_interaction" and matched is not None:
                evidence.matched = Matches(planned.compared[matched.rows], matched.cosines)
                parts = token_parts(matched, len(planned.compared))
                if self._plan.measure != MAX_SIM:
                    parts /= max(1, len(matched.rows))
                weights = np.zeros(planned.length, np.float32)
                weights[planned.compared] = parts
                evidence.weights = units.passage.sums(weights)
                if evidence.special is not None:
                    evidence.special.weights = evidence.special.units.sums(weights)
            elif each.method == "attention" and passage.attention is not None:
                every = [evidence, evidence.query, evidence.special]
                for side in (each for each in every if each is not None):
                    side.weights = side.units.sums(passage.attention.reshape(-1))
            numbers.evidence.append(evidence)
        return numbers


def _unweighted(units: PlannedUnits) -> EvidenceNumbers:
    none = np.zeros(0, np.float32)
    query, special = (
        None if side is None else UnitNumbers(side, none) for side in (units.query, units.special)
    )
    return EvidenceNumbers(units.passage, none, query=query, special=special)


def passage_result(
    spec: CompareSpec,
    numbers: PassageNumbers,
    tokens: TokenList | None,
    spelling: Spelling | None,
) -> PassageComparison:
    """Return the comparison with one passage as plain values."""
    evidence = []
    for each, parts in zip(spec.evidence, numbers.evidence, strict=True):
        matched, passage = parts.matched, unit_weights(parts)
        evidence.append(
            Evidence(
                each.method,
                passage.units,
                passage.characters,
                passage.weights,
                () if matched is None else tuple(matched.rows.tolist()),
                None if matched is None else matched.cosines,
                None if parts.query is None else unit_weights(parts.query),
                None if parts.special is None else unit_weights(parts.special),
                None if parts.terms is None else matched_terms(parts.terms, spelling),
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


def matched_terms(matches: TermMatches, spelling: Spelling | None) -> MatchedTerms:
    """Return shared terms as plain values."""
    pieces = () if spelling is None else spelling.pieces(matches.terms)
    return MatchedTerms(tuple(matches.terms.tolist()), pieces, matches.query, matches.passage)


def unit_weights(numbers: UnitNumbers) -> UnitWeights:
    """Return units and their weights as plain values."""
    characters = numbers.units.characters
    spans = () if characters is None else tuple(Span(*each) for each in characters.T.tolist())
    return UnitWeights(numbers.units.each(), spans, numbers.weights)
