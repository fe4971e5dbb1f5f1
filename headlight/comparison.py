"""Comparison of a query with passages: what to ask for, and the result. Plain frozen values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.evidence_methods import METHODS, EvidenceMethod
from headlight.results import Floats, ModelRef, TokenList
from headlight.spec import RowType, Span

MatrixKind = Literal["cosine", "contribution"]
EvidenceUnit = Literal["token", "word", "sentence", "span"]
EVIDENCE_UNITS: tuple[EvidenceUnit, ...] = ("token", "word", "sentence", "span")
NO_WEIGHTS = np.zeros(0, np.float32)
LOGIT = "logit"  # the measure of the scores of a model that reranks
# Of a model of many vectors: the sum over the query's of the largest product with a passage's.
MAX_SIM = "max_sim"
# The measure by the output that gives scores; of any other, the model names its similarity.
MEASURES = {"scores": LOGIT, "multi_vector": MAX_SIM, "sparse": "dot"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSpec:
    """Requested evidence of one method; see `EvidenceMethod` in the contract for their formulas.

    Attributes:
        method: "span", the similarity of a unit's own vector; "contributions", the unit's part of
            the score; "occlusion", which costs an encoding for each unit; "late_interaction";
            "attention", which does not depend on the query and explains nothing. "span" and
            "contributions" need a model that pools by mean. A model that reranks has occlusion and
            attention alone, and its attention is that of the query's tokens within the pair; of a
            decoder the document's, because the query stands before it. "terms", of a model with
            sparse vectors: the terms that query and passage share; it has no units.
        unit: tokens that are neither special nor of the prompt, or words, sentences, given spans.
        spans: the units of unit "span": for each passage, spans that do not overlap. The query of
            a pair is then one unit.
        top_k: return this many units of each passage, and of the query in a pair, or this many
            terms, the largest weights first; None: all.
        layers: of method "attention": from 0, or negative from the end; empty: all.
        heads: as `layers`.
        per_token: divide each weight by the number of the unit's tokens, so that long units have no
            advantage. Of methods whose weights are sums over tokens: not of "span" and "terms".
        max_encodings: of method "occlusion" and units "word" and "token": hide at most this many
            units of each passage, from 2. Sentences first, then the units of the sentences with
            the largest weights; what is too many is hidden in runs of neighbours. None: each unit.
        query_units: also weigh the units of the query in each passage: of every method but
            "attention" and "terms". A model that reranks always does.
        distinct: weigh down what the passages of a call share, such as function words; of a single
            passage it changes nothing. By "late_interaction", each match is multiplied by the
            inverse document frequency of the passage's token among them, ln(1 + (N - n + 0.5) /
            (n + 0.5)). By "contributions", the part of the score along their mean direction is left
            out. The weights then sum to less than the score.
    """

    method: EvidenceMethod = "late_interaction"
    unit: EvidenceUnit = "word"
    spans: tuple[tuple[Span, ...], ...] = ()
    top_k: int | None = None
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    per_token: bool = False
    max_encodings: int | None = None
    query_units: bool = False
    distinct: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompareSpec:
    """What a comparison returns besides scores.

    Attributes:
        late_interaction: also `max_sim_mean`.
        evidence: at most one for each method.
        matrix: type of the matrices of token similarities; None: no matrices.
        matrix_max_bytes: refuse larger matrices; None: the service's limits alone.
        matrix_kind: what a cell of a matrix is: the tokens' "cosine", or their "contribution" to
            the score.
        sort: whether the passages with the highest scores come first.
        token_vectors: whether it compares token vectors.
        contributions: whether it returns the contribution of each pair of tokens.
        token_rows: whether a method reads them as pooling does.
        details: whether the answer has the tokens of query and passages.
    """

    late_interaction: bool = False
    evidence: tuple[EvidenceSpec, ...] = ()
    matrix: RowType | None = None
    matrix_max_bytes: int | None = None
    matrix_kind: MatrixKind = "cosine"
    sort: bool = False

    @property
    def token_vectors(self) -> bool:
        methods = [each.method for each in self.evidence]
        cosines = self.matrix is not None and self.matrix_kind == "cosine"
        return self.late_interaction or cosines or "late_interaction" in methods

    @property
    def contributions(self) -> bool:
        return self.matrix is not None and self.matrix_kind == "contribution"

    @property
    def token_rows(self) -> bool:
        return self.contributions or any(METHODS[each.method].token_rows for each in self.evidence)

    @property
    def details(self) -> bool:
        return self.token_vectors or self.contributions or bool(self.evidence)


class _Weighted:
    """Units with weights."""

    __slots__ = ()
    weights: Floats

    def largest(self, count: int) -> list[int]:
        """Return the indices of the units with the largest weights, in descending order."""
        return sorted(range(len(self.weights)), key=lambda at: -self.weights[at])[:count]


@dataclasses.dataclass(frozen=True, slots=True)
class UnitWeights(_Weighted):
    """The weight of each of some units.

    Attributes:
        units: the tokens of each unit: indices into the passage's tokens.
        characters: the characters of each unit; empty if the units have none.
        weights: float32 [units].
    """

    units: tuple[tuple[int, ...], ...]
    characters: tuple[Span, ...]
    weights: Floats


@dataclasses.dataclass(frozen=True, slots=True)
class MatchedTerms:
    """Terms of the vocabulary that a query and a passage share.

    Attributes:
        terms: their numbers.
        pieces: the vocabulary's spelling of each; empty of a model without a tokenizer.
        query: float32 [terms], the query's weights.
        passage: float32 [terms], the passage's weights.
    """

    terms: tuple[int, ...]
    pieces: tuple[str, ...]
    query: Floats
    passage: Floats

    def labels(self) -> tuple[str, ...]:
        """Return the spelling of each, or its number."""
        return self.pieces or tuple(f"#{term}" for term in self.terms)


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence(_Weighted):
    """The weight of each unit of one passage by one method.

    Attributes:
        method: the method.
        units: the tokens of each unit: indices into the passage's tokens.
        characters: the characters of each unit; empty if the passage was given as ids.
        weights: float32 [units]; by terms, of each term the product of both weights, the largest
            first. Of all terms they sum to the score of a model that is compared by sparse vectors.
        matched_tokens: of late interaction: for each of `Comparison.query_tokens` the token of the
            passage with the largest cosine; empty if the passage has none.
        matched_cosines: float32 [query tokens], those cosines.
        query: of a model that reranks, and by `EvidenceSpec.query_units`: the query's units beside
            this passage; their characters are those of the query. Their tokens are those of the
            pair, or of `Comparison.query`.
        special: of a model that reranks, by attention: the other tokens of the pair; by
            contributions, and by late interaction of a model of many vectors: the passage's other
            tokens, so that all weights sum to the score. They have no characters.
        terms: by terms, the shared ones; there are no units.
    """

    method: EvidenceMethod
    units: tuple[tuple[int, ...], ...]
    characters: tuple[Span, ...]
    weights: Floats
    matched_tokens: tuple[int, ...] = ()
    matched_cosines: Floats | None = None
    query: UnitWeights | None = None
    special: UnitWeights | None = None
    terms: MatchedTerms | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PassageComparison:
    """The comparison with one passage.

    Attributes:
        index: of the passage in the request.
        score: similarity of the pooled vectors, by `Comparison.similarity`; of a model that reranks
            the logit of the pair; of one with sparse vectors alone their dot product; of one with
            many vectors and no pooled one their MaxSim.
        max_sim_mean: the mean over the query's tokens of the largest cosine with a token of the
            passage; None: not requested.
        evidence: one for each requested method, in the order of the request.
        tokens: the passage's tokens, or those of the pair of the query and the passage; None if
            only scores were requested.
        compared_tokens: the tokens on the second axis of `matrix`: those that are neither special
            nor of the prompt; of ids, all; of a model of many vectors, those that have one.
        matrix: float32 or float16; None: not requested. Cosines have `Comparison.query_tokens` and
            `compared_tokens` as axes; contributions all tokens of the query and of the passage, and
            sum to the score.
    """

    index: int
    score: float
    max_sim_mean: float | None = None
    evidence: tuple[Evidence, ...] = ()
    tokens: TokenList | None = None
    compared_tokens: tuple[int, ...] = ()
    matrix: NDArray[Any] | None = None

    def evidence_by(self, method: EvidenceMethod) -> Evidence:
        """Return the evidence of a method. Raises KeyError: it was not requested."""
        for each in self.evidence:
            if each.method == method:
                return each
        raise KeyError(method)


@dataclasses.dataclass(frozen=True, slots=True)
class Contrast(_Weighted):
    """Why one passage scores above another.

    Attributes:
        difference: the score of the one less that of the other.
        query: the query's units. The weight of a unit is its weight beside the one passage, less
            that beside the other: what it adds to the difference. There are none by terms.
        terms: by terms, the spelling of each that the query shares with one of the passages, or its
            number, the largest weight first.
        weights: float32 [units or terms].
    """

    difference: float
    query: UnitWeights
    weights: Floats
    terms: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A query compared with passages.

    Attributes:
        similarity: the measure of the scores; larger is more similar. "logit" of a model that
            reranks, "max_sim" of a model of many vectors and no pooled one.
        passages: in the order of the request, or by descending score.
        query: the query's tokens; None if only scores were requested, and of a model that reranks.
        query_tokens: the query's tokens that late interaction compares; of ids, all; of a model of
            many vectors, those that have one.
        model: the weights.
    """

    similarity: str
    passages: tuple[PassageComparison, ...]
    query: TokenList | None
    query_tokens: tuple[int, ...]
    model: ModelRef

    def contrast(
        self,
        one: PassageComparison,
        other: PassageComparison,
        *,
        method: EvidenceMethod = "occlusion",
    ) -> Contrast:
        """Return why one passage scores above another, in the units of the query.

        With w(u, p) the weight of a unit u of the query beside a passage p, the weight is

            w(u) = w(u, one) - w(u, other).

        By contributions and terms, these sum to the difference of the scores, but for the query's
        special tokens; by late interaction, to that of `max_sim_mean`. By occlusion it is the
        occlusion of the difference of the scores: the contrastive input erasure of Yin and Neubig,
        "Interpreting Language Models with Contrastive Explanations" (EMNLP 2022), with passages in
        the place of words to predict.

        Args:
            one, other: passages of this comparison, with evidence by the method, of the query's
                units (`EvidenceSpec.query_units`) or by terms.
            method: the method.

        Raises:
            InvalidInput: they do not have the same units of the query: it was cut beside one of
                them, or only some units were requested.
            KeyError: they have no evidence by the method of the query.
        """
        pair = [each.evidence_by(method) for each in (one, other)]
        difference = one.score - other.score
        if method == "terms":
            return Contrast(difference, UnitWeights((), (), NO_WEIGHTS), *_contrasted_terms(*pair))
        mine, its = (each.query for each in pair)
        if mine is None or its is None:
            raise KeyError("query")
        # The tokens of two pairs differ, the characters of their query do not.
        paired = self.query is None
        names, its_names = (each.characters if paired else each.units for each in (mine, its))
        others = dict(zip(its_names, its.weights, strict=True))
        if others.keys() != set(names):
            raise InvalidInput("other", Reason.QUERIES_DIFFER)
        weights = mine.weights - np.array([others[name] for name in names], np.float32)
        units = UnitWeights(mine.units, mine.characters, weights)
        return Contrast(difference, units, weights)

    def __iter__(self) -> Iterator[PassageComparison]:
        return iter(self.passages)

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        return f"<Comparison {self.model.name}: {len(self)} passages, {self.similarity}>"


def _contrasted_terms(one: Evidence, other: Evidence) -> tuple[Floats, tuple[str, ...]]:
    """Return the weights of the terms of either passage, the largest first, and their spelling."""
    weights = dict[str, float]()
    for evidence, sign in ((one, 1.0), (other, -1.0)):
        labels = () if evidence.terms is None else evidence.terms.labels()
        for label, weight in zip(labels, evidence.weights.tolist(), strict=True):
            weights[label] = weights.get(label, 0.0) + sign * weight
    order = sorted(weights, key=lambda label: -weights[label])
    return np.array([weights[label] for label in order], np.float32), tuple(order)
