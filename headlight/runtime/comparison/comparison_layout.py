"""Plan of a comparison: what to compute of the query and of each passage, and how much it is."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from headlight.comparison import MAX_SIM, MEASURES, CompareSpec, EvidenceSpec
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason
from headlight.outputs.maps.resolved_spec import ATTENTION, is_one_token
from headlight.outputs.maps.token_units import Places, Units, pooled_token
from headlight.outputs.scores import ALL
from headlight.outputs.sparse import SPARSE, USUAL
from headlight.refusals import Path, path_of
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.comparison.evidence_units import (
    NO_TOKENS,
    EvidenceUnits,
    compared_tokens,
    pair_tokens,
    query_units,
    single_tokens,
    units_of,
)
from headlight.runtime.comparison.late_interaction import BLOCK
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.plans.plan import OccludedUnit
from headlight.runtime.values import Ids, Tokenized
from headlight.spec import (
    NUMBER_BYTES,
    AttentionSpec,
    MultiVectorSpec,
    ScoreOutput,
    SparseSpec,
    TokensSpec,
)

FLOAT_BYTES = 4
NUMBERS_OF_TERM = 3  # its weight in the query and in the passage, and their product
UNIT_ROWS, MANY_VECTORS, TERMS = TokensSpec(normalize=True), MultiVectorSpec(), SparseSpec()
SCORED_BY: dict[ScoreOutput, Any] = {
    "pooled": True,
    "scores": ALL,
    "sparse": TERMS,
    "multi_vector": MANY_VECTORS,
}
# Evidence of models without a vector of a text.
INSTEAD_OF_ATTENTION = {"sparse": "terms", "multi_vector": "late_interaction"}


class PlannedUnits(NamedTuple):
    """The units of evidence of one method.

    Attributes:
        passage: those of the passage.
        query: those of the query, if the model reads both as a pair.
        special: of attention within a pair, its other tokens; of late interaction of a model of
            many vectors, the passage's.
    """

    passage: EvidenceUnits
    query: EvidenceUnits | None = None
    special: EvidenceUnits | None = None

    @property
    def hidden(self) -> list[EvidenceUnits]:
        """Units that occlusion hides, in their order."""
        return [self.passage] if self.query is None else [self.passage, self.query]

    def returned(self, spec: EvidenceSpec) -> list[tuple[int, EvidenceUnits]]:
        """Return how many units of each kind an answer has, and all units of that kind."""
        most = sys.maxsize if spec.top_k is None else spec.top_k
        found = [(min(most, len(units)), units) for units in self.hidden]
        return found if self.special is None else [*found, (len(self.special), self.special)]


class PlannedPassage(NamedTuple):
    """Tokens of one passage, or of the pair of the query and the passage.

    Attributes:
        compared: int64 [p], the tokens that late interaction compares; none of a pair.
        units: the units of each requested evidence.
        length: tokens of the passage.
        attending: int64 [q], of a pair: the tokens whose attention is evidence.
    """

    compared: Ids
    units: tuple[PlannedUnits, ...] = ()
    length: int = 0
    attending: Ids = NO_TOKENS


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonLayout:
    """Plan of a comparison.

    Attributes:
        spec: the request.
        query: int64 [q], the query's tokens that late interaction compares.
        passages: the tokens of each passage.
        occluded: units to hide, one after the other, passage by passage.
        measure: the similarity of pooled vectors; see `headlight.interface.similarity`. Of a model
            that reranks LOGIT: it reads pairs, so the query is no input of its own. Of one with
            many vectors and no pooled one MAX_SIM; of sparse vectors their dot product.
        vectors: output with the vectors that late interaction compares.
        output: the output that gives the score.
        most_terms: of the evidence by terms of one passage.
    """

    spec: CompareSpec
    query: Ids
    passages: tuple[PlannedPassage, ...]
    occluded: tuple[OccludedUnit, ...] = ()
    output: ScoreOutput = "pooled"
    measure: str = "cosine"
    vectors: str = "tokens"
    most_terms: int = 0

    @property
    def of_pairs(self) -> bool:
        """Whether the inputs are pairs of the query and a passage."""
        return self.output == "scores"

    @property
    def matrix_bytes(self) -> int:
        """Bytes of all matrices."""
        if self.spec.matrix is None:
            return 0
        cells = len(self.query) * sum(len(each.compared) for each in self.passages)
        return cells * NUMBER_BYTES[self.spec.matrix]

    @property
    def cosine_bytes(self) -> int:
        """Bytes of the cosines that are held while a passage is compared, besides matrices."""
        if not self.spec.token_vectors or self.spec.matrix == "float32":
            return 0
        longest = max([len(each.compared) for each in self.passages])
        cosines = len(self.query) * longest
        if self.spec.matrix is None:
            cosines = min(cosines, max(BLOCK, longest))
        return cosines * FLOAT_BYTES

    @property
    def data_bytes(self) -> int:
        """Bytes of scores, evidence and matrices."""
        numbers = len(self.passages) * (2 if self.spec.late_interaction else 1)
        for passage in self.passages:
            numbers += NUMBERS_OF_TERM * self.most_terms
            for spec, units in zip(self.spec.evidence, passage.units, strict=True):
                numbers += sum(count for count, _ in units.returned(spec))
                if spec.method == "late_interaction" and len(passage.compared):
                    numbers += len(self.query)
        return numbers * FLOAT_BYTES + self.matrix_bytes

    def check_max_bytes(self) -> None:
        """Raise InvalidInput if the matrices are larger than the request allows."""
        size, most = self.matrix_bytes, self.spec.matrix_max_bytes
        if most is not None and size > most:
            raise InvalidInput("matrix.max_bytes", Reason.MATRICES_BYTES, size=size, most=most)

    def items(self, items: Sequence[EncodeItem]) -> list[EncodeItem]:
        """Return the items with the rows alone that are compared, and of pairs the mean of rows."""
        if self.of_pairs and items[0].selection.get("attention"):
            return [
                item.placed(attention=mean_row(len(item.ids), each.attending))
                for item, each in zip(items, self.passages, strict=True)
            ]
        if not self.spec.token_vectors or self.vectors != "tokens":
            return list(items)
        rows = [self.query, *(each.compared for each in self.passages)]
        return [item.placed(tokens=own) for item, own in zip(items, rows, strict=True)]


def term_evidence(spec: CompareSpec) -> EvidenceSpec | None:
    """Return the requested evidence by terms; None: there is none."""
    return next((each for each in spec.evidence if each.method == "terms"), None)


def mean_row(length: int, tokens: Ids) -> Places:
    """Return the attention of some tokens, averaged over them, to each of `length` tokens."""
    return Places(length, queries=Units(tokens, np.zeros(1, np.int64)))


def scores(output: ScoreOutput) -> dict[str, Any]:
    """Return the request of the output that gives a score, as keywords of `Runtime.select`."""
    return {"pooled": False, output: SCORED_BY[output]}


def comparison_outputs(spec: CompareSpec, model: ModelDescription) -> dict[str, Any]:
    """Return the outputs to request of query and passages, as keywords of `Runtime.select`.

    Raises:
        InvalidInput: the model has no vector of a text, and evidence is its attention.
    """
    attention = next((each for each in spec.evidence if each.method == "attention"), None)
    pairs, without = model.reranks, INSTEAD_OF_ATTENTION.get(model.score_output)
    if attention is not None and without is not None:
        field = "evidence", spec.evidence.index(attention), "method"
        raise InvalidInput(field, Reason.NO_POOLED_ATTENTION, method=without)
    vectors = {"multi_vector": MANY_VECTORS} if model.multi_vector_dim else {"tokens": UNIT_ROWS}
    return {
        **scores(model.score_output),
        **(vectors if spec.token_vectors else {}),
        **({} if term_evidence(spec) is None else {"sparse": TERMS}),
        "attention": None
        if attention is None
        else AttentionSpec(
            layers=attention.layers,
            heads=attention.heads,
            reduce=("head_mean", "layer_mean", *(() if pairs else ("pooling_weights",))),
        ),
    }


def evidence_names(spec: CompareSpec) -> dict[Path, Path]:
    """Return the names of requested outputs, as parts of the evidence that asks for them."""
    methods = [each.method for each in spec.evidence]
    names: dict[Path, Path] = {}
    if "terms" in methods:
        names[path_of(SPARSE)] = ("evidence", methods.index("terms"), "method")
    if "attention" not in methods:
        return names
    own, attention = ("evidence", methods.index("attention")), path_of(ATTENTION)
    return names | {
        (*attention, "layers"): (*own, "layers"),
        (*attention, "heads"): (*own, "heads"),
        attention: (*own, "method"),
        (*attention, "reduce"): (*own, "method"),
    }


def layout_of(
    spec: CompareSpec,
    manifest: Manifest,
    output: ScoreOutput,
    inputs: Sequence[Tokenized],
    values: Sequence[object],
) -> ComparisonLayout:
    """Return the plan of a comparison.

    Args:
        spec: checked for so many passages.
        manifest: of the model's bundle.
        output: the output that gives the model's scores.
        inputs: the query, then the passages; or pairs of the query and a passage. With their
            tokens if `spec.details`.
        values: the same as given; only texts have words, sentences and spans.

    Raises:
        InvalidInput: a passage cannot have the units. Names the field.
    """
    of_pairs = output == "scores"
    measure = MEASURES.get(output, manifest.similarity or "cosine")
    if not spec.details:
        passages = (PlannedPassage(NO_TOKENS),) * (len(inputs) - (0 if of_pairs else 1))
        return ComparisonLayout(spec, NO_TOKENS, passages, (), output, measure)
    if of_pairs:
        passages, occluded = _pairs(
            spec, manifest, inputs, cast("Sequence[tuple[str, str]]", values)
        )
        return ComparisonLayout(spec, NO_TOKENS, passages, occluded, output, measure)
    many = manifest.architecture.multi_vector_dim > 0
    planned, hidden = list[PlannedPassage](), list[OccludedUnit]()
    for place, (tokenized, value) in enumerate(zip(inputs[1:], values[1:], strict=True)):
        text = value if isinstance(value, str) else None
        compared, found = compared_tokens(tokenized), list[PlannedUnits]()
        matched = matched_tokens(tokenized) if many else compared
        made = dict[tuple[object, ...], EvidenceUnits]()  # methods often have the same units
        for at, each in enumerate(spec.evidence):
            if each.method == "terms":
                found.append(PlannedUnits(EvidenceUnits(NO_TOKENS, NO_TOKENS)))
                continue
            hides = each.method == "occlusion"
            tokens = compared
            if hides and measure != MAX_SIM:
                tokens = _without_pooled(compared, manifest.pooling, tokenized)
            key = each.unit, each.spans[place : place + 1], len(tokens)
            if key not in made:
                made[key] = units_of(each, place, tokenized, text, tokens, f"evidence[{at}]")
            special = None
            if many and each.method == "late_interaction":
                special = single_tokens(len(tokenized.ids), [compared])
            found.append(PlannedUnits(made[key], special=special))
            if hides:
                hidden += _occluded_units(place, made[key], tokenized)
        planned.append(PlannedPassage(matched, tuple(found), len(tokenized.ids)))
    query = matched_tokens(inputs[0]) if many else compared_tokens(inputs[0])
    terms = term_evidence(spec)
    most = 0 if terms is None else min(terms.top_k or USUAL, manifest.architecture.vocab_size)
    return ComparisonLayout(
        spec,
        query,
        tuple(planned),
        tuple(hidden),
        output,
        measure,
        "multi_vector" if many else "tokens",
        min(most, USUAL),
    )


def matched_tokens(tokenized: Tokenized) -> Ids:
    """Return the tokens with a vector of their own in a model of many vectors: int64 [m]."""
    return np.arange(len(tokenized.ids)) if tokenized.matched is None else tokenized.matched


def _pairs(
    spec: CompareSpec,
    manifest: Manifest,
    inputs: Sequence[Tokenized],
    pairs: Sequence[tuple[str, str]],
) -> tuple[tuple[PlannedPassage, ...], tuple[OccludedUnit, ...]]:
    """Return the tokens of each pair of the query and a passage, and what is hidden of them.

    Units of one method are hidden in the order of `PlannedUnits.hidden`.
    """
    planned, hidden = list[PlannedPassage](), list[OccludedUnit]()
    later = int(manifest.architecture.causal)  # the text that sees the other
    for place, (tokenized, texts) in enumerate(zip(inputs, pairs, strict=True)):
        sides, found = pair_tokens(tokenized), list[PlannedUnits]()
        for at, each in enumerate(spec.evidence):
            hides = each.method == "occlusion"
            query, passage = (
                _without_pooled(side, manifest.pooling, tokenized) if hides else side
                for side in sides
            )
            units = PlannedUnits(
                units_of(each, place, tokenized, texts[1], passage, f"evidence[{at}]"),
                query_units(each, tokenized, texts[0], query),
                None if hides else single_tokens(len(tokenized.ids), sides),
            )
            if not hides and not len(sides[later]):
                field = f"passages[{place}]" if later else "query"
                raise InvalidInput(field, Reason.NO_ATTENDING_TOKENS)
            found.append(units)
            if hides:
                hidden += [
                    OccludedUnit(place, tokens) for side in units.hidden for tokens in side.each()
                ]
        planned.append(PlannedPassage(NO_TOKENS, tuple(found), attending=sides[later]))
    return tuple(planned), tuple(hidden)


def _without_pooled(tokens: Ids, pooling: str, tokenized: Tokenized) -> Ids:
    """Leave out the token whose vector is the pooled vector: it cannot be hidden."""
    if not is_one_token(pooling):
        return tokens
    vector = pooled_token(pooling, len(tokenized.ids), tokenized.left_out)
    return np.delete(tokens, np.flatnonzero(tokens == vector))


def _occluded_units(place: int, units: EvidenceUnits, tokenized: Tokenized) -> list[OccludedUnit]:
    occluded, first = (
        [OccludedUnit(place + 1, tokens) for tokens in units.each()],
        tokenized.left_out,
    )
    pooled = len(tokenized.ids) - first  # at most
    for unit in occluded:
        if len(unit.tokens) >= pooled == sum([token >= first for token in unit.tokens]):
            raise InvalidInput(f"passages[{place}]", Reason.SINGLE_UNIT)
    return occluded
