"""Numbers of a comparison: scores, late interaction and evidence, from the engine's results."""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headlight.comparison import (
    MAX_SIM,
    CompareSpec,
    Evidence,
    EvidenceSpec,
    MatchedTerms,
    PassageComparison,
    UnitWeights,
)
from headlight.interface.similarity import similarity
from headlight.outputs.vector_forms import halve, unit_length
from headlight.results import TokenList
from headlight.runtime.comparison.comparison_layout import (
    ComparisonLayout,
    Head,
    PlannedPassage,
    PlannedUnits,
)
from headlight.runtime.comparison.evidence_units import EvidenceUnits, divided_further, largest
from headlight.runtime.comparison.late_interaction import (
    Matches,
    best_matches,
    matches,
    max_sim,
    max_sim_mean,
    token_cosines,
    token_parts,
)
from headlight.runtime.comparison.pooled_parts import (
    mean_direction,
    pair_contributions,
    token_contributions,
    unit_similarities,
)
from headlight.runtime.comparison.term_matches import TermMatches, term_matches
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.plans.plan import OccludedUnit, pooled_rows
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

    def weigh(self, passage: Floats, query: Floats) -> None:
        """Set the weights of units to sums over their tokens.

        Args:
            passage: float32 [n], the weight of each token of the passage, or of the pair.
            query: the same of the query's tokens, or of the pair's.
        """
        self.weights = self.units.sums(passage)
        if self.special is not None:
            self.special.weights = self.special.units.sums(passage)
        if self.query is not None:
            self.query.weights = self.query.units.sums(query)

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
    `divide`, then `take_hidden` until those that it returned are done, then `passages`.
    """

    def __init__(self, plan: ComparisonLayout, head: Head) -> None:
        """Store the plan, and the layers behind pooling."""
        self._plan, self._head = plan, head
        self._query: ItemResult
        self._query_rows: Floats | None = None  # behind these layers
        self._shared: NDArray[np.float64] | None = None  # direction that is left out
        self._whole: Sequence[ItemResult]
        self._passages: list[PassageNumbers]
        self._hidden = deque(plan.occluded)  # whose results are still to come
        # Scores without a unit: one, or with a unit of the query that is no part of pairs, that of
        # each passage.
        self._without = dict[OccludedUnit, list[float]]()

    def take_whole(self, results: Sequence[ItemResult]) -> None:
        """Take the results of query and passages, or of the pairs."""
        query, *passages = results
        if self._plan.of_pairs:
            passages = list(results)
        self._query = query
        distinct = [each.method for each in self._plan.spec.evidence if each.distinct]
        if "contributions" in distinct:
            self._shared = mean_direction(pooled_rows(passages))
        self._passages = [
            self._numbers(place, score, query, passage)
            for place, (score, passage) in enumerate(
                zip(self._scores(query, passages), passages, strict=True)
            )
        ]
        hides_query = not self._plan.of_pairs and any(unit.item == 0 for unit in self._hidden)
        self._whole = passages if hides_query else ()

    def take_hidden(self, results: Sequence[ItemResult]) -> None:
        """Take the results of the next occluded units."""
        shortened = list[tuple[OccludedUnit, ItemResult]]()
        for result in results:
            unit = self._hidden.popleft()
            if self._plan.of_pairs or unit.item > 0:
                shortened.append((unit, result))
            else:
                self._without[unit] = self._scores(result, self._whole)
        if shortened:
            units, rows = zip(*shortened, strict=True)
            scores = self._scores(self._query, rows)
            self._without |= {unit: [score] for unit, score in zip(units, scores, strict=True)}

    def divide(self) -> list[OccludedUnit]:
        """Divide units of the passages as planned, and return those to hide next."""
        for place, (numbers, planned) in enumerate(
            zip(self._passages, self._plan.passages, strict=True)
        ):
            for spec, units, evidence in zip(
                self._plan.spec.evidence, planned.units, numbers.evidence, strict=True
            ):
                if units.finer is None or spec.max_encodings is None:
                    continue
                weights = self._falls(place, self._item(place), evidence.units)
                evidence.units = divided_further(
                    evidence.units, units.finer, weights, spec.max_encodings
                )
                hidden = (
                    OccludedUnit(self._item(place), tokens) for tokens in evidence.units.each()
                )
                self._hidden.extend(unit for unit in hidden if unit not in self._without)
        return list(self._hidden)

    def passages(self) -> list[PassageNumbers]:
        """Return the numbers of the passages, sorted and cut as the request says."""
        spec = self._plan.spec
        for place, passage in enumerate(self._passages):
            for each, evidence in zip(spec.evidence, passage.evidence, strict=True):
                if evidence.terms is None:
                    self._finish(place, each, evidence)
        if spec.sort:
            return sorted(self._passages, key=lambda each: -each.score)
        return self._passages

    def _finish(self, place: int, spec: EvidenceSpec, evidence: EvidenceNumbers) -> None:
        """Weigh hidden units, and divide and cut the weights as requested."""
        if spec.method == "occlusion":
            item = self._item(place)
            evidence.weights = self._falls(place, item, evidence.units)
            if evidence.query is not None:
                item = item if self._plan.of_pairs else 0
                evidence.query.weights = self._falls(place, item, evidence.query.units)
        for side in evidence.sides:
            if spec.per_token:
                side.weights = np.divide(side.weights, side.units.sizes, dtype=np.float32)
            if spec.top_k is not None:
                side.keep_largest(spec.top_k)

    def _item(self, place: int) -> int:
        """Return the index of the item of a passage, or of its pair."""
        return place if self._plan.of_pairs else place + 1

    def _falls(self, place: int, item: int, units: EvidenceUnits) -> Floats:
        """Return how far the score of a passage falls without each unit of an item."""
        scores = [self._without[OccludedUnit(item, tokens)] for tokens in units.each()]
        without = [each[place] if len(each) > 1 else each[0] for each in scores]
        return np.float32(self._passages[place].score) - np.array(without, np.float32)

    def _scores(self, query: ItemResult, passages: Sequence[ItemResult]) -> list[float]:
        if self._plan.of_pairs:
            logits: list[float] = np.stack([each["scores"] for each in passages])[:, 0].tolist()
            return logits
        if self._plan.output == "sparse":
            return [term_matches(query, each).score for each in passages]
        if self._plan.measure == MAX_SIM:
            vectors = query["multi_vector"]
            return [max_sim(vectors, each["multi_vector"]) for each in passages]
        rows = pooled_rows(passages)
        similarities: list[float] = similarity(self._plan.measure, query["pooled"], rows)[
            0
        ].tolist()
        return similarities

    def _vectors(self, result: ItemResult, compared: Ids) -> Floats:
        """Return the vectors of the compared tokens, of unit length."""
        rows: Floats = result[self._plan.vectors]
        if self._plan.vectors == "tokens" and self._plan.spec.token_rows:
            return unit_length(rows[compared])
        return rows

    def _numbers(
        self, place: int, score: float, query: ItemResult, passage: ItemResult
    ) -> PassageNumbers:
        plan, spec, planned = self._plan, self._plan.spec, self._plan.passages[place]
        cosines = matched = None
        if spec.token_vectors:
            sides = self._vectors(query, plan.query), self._vectors(passage, planned.compared)
            if spec.matrix is None or spec.contributions:
                matched = best_matches(*sides)
            else:
                cosines = token_cosines(*sides)
                matched = matches(cosines)
        numbers = PassageNumbers(place, score, None, [], planned.compared, None)
        if spec.late_interaction and matched is not None:
            numbers.max_sim_mean = max_sim_mean(matched)
        rows = self._rows(query, passage) if spec.token_rows else None
        if spec.matrix is not None:
            numbers.matrix = self._matrix(planned, cosines, rows)
        for each, units in zip(spec.evidence, planned.units, strict=True):
            evidence = _unweighted(units)
            if each.method == "terms":
                evidence.terms = term_matches(query, passage).largest(each.top_k)
                evidence.weights = evidence.terms.products
            elif each.method == "late_interaction" and matched is not None:
                evidence.matched = Matches(planned.compared[matched.rows], matched.cosines)
                evidence.weigh(*self._late_interaction(planned, matched))
            elif each.method == "attention" and passage.attention is not None:
                weights = passage.attention.reshape(-1)
                evidence.weigh(weights, weights)
            elif each.method == "contributions" and rows is not None:
                evidence.weigh(*self._contributions(planned, query, passage, rows))
            elif each.method == "span" and rows is not None:
                others = query["pooled"], passage["pooled"]
                for side, tokens, other in zip(evidence.sides, rows, others, strict=False):
                    vectors = (
                        self._head(side.units.means(tokens)) if len(side.units) else tokens[:0]
                    )
                    side.weights = unit_similarities(
                        plan.measure, other, vectors, normalize=plan.normalize
                    )
            numbers.evidence.append(evidence)
        return numbers

    def _rows(self, query: ItemResult, passage: ItemResult) -> tuple[Floats, Floats]:
        """Return the token vectors of the passage and of the query."""
        return passage["tokens"], query["tokens"]

    def _late_interaction(self, planned: PlannedPassage, matched: Matches) -> tuple[Floats, Floats]:
        """Return the part of each token of the passage, and of the query."""
        count = 1 if self._plan.measure == MAX_SIM else max(1, len(matched.rows))
        if planned.rarity is not None:
            rarity = planned.rarity[planned.compared[matched.rows]]
            matched = matched._replace(cosines=matched.cosines * rarity)
        weights = np.zeros(planned.length, np.float32)
        weights[planned.compared] = token_parts(matched, len(planned.compared)) / count
        query_weights = np.zeros(self._plan.query_length, np.float32)
        query_weights[self._plan.query[: len(matched.cosines)]] = matched.cosines / count
        return weights, query_weights

    def _contributions(
        self,
        planned: PlannedPassage,
        query: ItemResult,
        passage: ItemResult,
        rows: tuple[Floats, Floats],
    ) -> tuple[Floats, Floats]:
        """Return the part of each token of the passage, and of the query."""
        plan, [passage_rows, query_rows] = self._plan, rows
        parts = functools.partial(
            token_contributions, plan.measure, normalize=plan.normalize, without=self._shared
        )
        weights = parts(query["pooled"], self._head(passage_rows), planned.left_out)
        if not any(each.query is not None for each in planned.units):
            return weights, weights[:0]
        behind = self._rows_behind_head(query_rows)
        return weights, parts(passage["pooled"], behind, plan.query_left_out)

    def _matrix(
        self,
        planned: PlannedPassage,
        cosines: Floats | None,
        rows: tuple[Floats, Floats] | None,
    ) -> Array | None:
        """Return the matrix of the query's tokens and a passage's, of the requested kind."""
        plan, cells = self._plan, cosines
        if plan.spec.contributions and rows is not None:
            passage_rows, query_rows = rows
            cells = pair_contributions(
                plan.measure,
                self._rows_behind_head(query_rows),
                self._head(passage_rows),
                (plan.query_left_out, planned.left_out),
                normalize=plan.normalize,
            )
        return halve(cells) if cells is not None and plan.spec.matrix == "float16" else cells

    def _rows_behind_head(self, query_rows: Floats) -> Floats:
        """Return the query's token vectors behind the layers that follow pooling."""
        if self._query_rows is None:
            self._query_rows = self._head(query_rows)
        return self._query_rows


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
