"""Plan of a comparison: what to compute of the query and of each passage, and how much it is."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from headlight.comparison import MAX_SIM, MEASURES, CompareSpec, EvidenceSpec
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason
from headlight.evidence_methods import METHODS, EvidenceMethod
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
    cut_at,
    pair_tokens,
    query_units,
    single_tokens,
    units_of,
)
from headlight.runtime.comparison.late_interaction import BLOCK
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.plans.plan import OccludedUnit
from headlight.runtime.values import Floats, Ids, Tokenized
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
POOLED_ROWS = TokensSpec()
ADDITIVE = (None, "cosine", "dot")  # similarities that are sums over the tokens of a mean
SCORED_BY: dict[ScoreOutput, Any] = {
    "pooled": True,
    "scores": ALL,
    "sparse": TERMS,
    "multi_vector": MANY_VECTORS,
}


class PlannedUnits(NamedTuple):
    """The units of evidence of one method.

    Attributes:
        passage: those of the passage.
        query: those of the query, if the model reads both as a pair, or if they were requested.
        special: of attention within a pair, its other tokens; of contributions, and of late
            interaction of a model of many vectors, the passage's.
        finer: units that those of the passage with the largest weights are divided into, until
            `EvidenceSpec.max_encodings` are hidden; None: they are not divided.
    """

    passage: EvidenceUnits
    query: EvidenceUnits | None = None
    special: EvidenceUnits | None = None
    finer: EvidenceUnits | None = None

    @property
    def sides(self) -> list[EvidenceUnits]:
        """Units of the passage, and those of the query if there are any."""
        return [self.passage] if self.query is None else [self.passage, self.query]

    def returned(self, spec: EvidenceSpec) -> list[tuple[int, int]]:
        """Return the most units of each kind that an answer has, and the most of their tokens."""
        most = sys.maxsize if spec.top_k is None else spec.top_k
        counts = [(min(most, len(units)), units.most_tokens(most)) for units in self.sides]
        if self.finer is not None and spec.max_encodings is not None:
            counts[0] = min(most, spec.max_encodings), len(self.finer.tokens)
        if self.special is not None:
            counts.append((len(self.special), len(self.special.tokens)))
        return counts


class PlannedPassage(NamedTuple):
    """Tokens of one passage, or of the pair of the query and the passage.

    Attributes:
        compared: int64 [p], the tokens that late interaction compares; none of a pair.
        units: the units of each requested evidence.
        length: tokens of the passage.
        left_out: the number of its first tokens that pooling leaves out.
        attending: int64 [q], of a pair: the tokens whose attention is evidence.
        rarity: float32 [length], inverse document frequency of each token among the passages;
            None: not requested.
    """

    compared: Ids
    units: tuple[PlannedUnits, ...] = ()
    length: int = 0
    left_out: int = 0
    attending: Ids = NO_TOKENS
    rarity: Floats | None = None


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
        query_length, query_left_out: of the query, as those of `PlannedPassage`.
        normalize: whether pooled vectors have unit length.
    """

    spec: CompareSpec
    query: Ids
    passages: tuple[PlannedPassage, ...]
    occluded: tuple[OccludedUnit, ...] = ()
    output: ScoreOutput = "pooled"
    measure: str = "cosine"
    vectors: str = "tokens"
    most_terms: int = 0
    query_length: int = 0
    query_left_out: int = 0
    normalize: bool = False

    @property
    def of_pairs(self) -> bool:
        """Whether the inputs are pairs of the query and a passage."""
        return self.output == "scores"

    def matrix_shape(self, passage: PlannedPassage) -> tuple[int, int]:
        """Return the tokens of the query and of a passage that a matrix has."""
        if self.spec.contributions:
            return self.query_length, passage.length
        return len(self.query), len(passage.compared)

    @property
    def matrix_bytes(self) -> int:
        """Bytes of all matrices."""
        if self.spec.matrix is None:
            return 0
        cells = sum(math.prod(self.matrix_shape(each)) for each in self.passages)
        return cells * NUMBER_BYTES[self.spec.matrix]

    @property
    def cosine_bytes(self) -> int:
        """Bytes of the numbers of pairs of tokens held while a passage is compared.

        Matrices are not counted.
        """
        numbers = 0
        if self.spec.matrix == "float16":
            numbers = max(math.prod(self.matrix_shape(each)) for each in self.passages)
        if self.spec.token_vectors and (self.spec.matrix is None or self.spec.contributions):
            longest = max([len(each.compared) for each in self.passages])
            numbers += min(len(self.query) * longest, max(BLOCK, longest))
        return numbers * FLOAT_BYTES

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

    def hidden_tokens(self, lengths: Sequence[int]) -> int:
        """Return the most tokens of all items with hidden units; `lengths`: of the whole items."""
        first = sum([lengths[unit.item] for unit in self.occluded])
        skipped = 0 if self.of_pairs else 1
        divided = [
            (each.max_encodings - len(units.passage)) * lengths[place + skipped]
            for place, passage in enumerate(self.passages)
            for each, units in zip(self.spec.evidence, passage.units, strict=True)
            if units.finer is not None and each.max_encodings is not None
        ]
        return first + sum(divided)

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
        compares = self.spec.token_vectors and self.vectors == "tokens"
        if self.spec.token_rows or not compares:
            return list(items)
        rows = [self.query, *(each.compared for each in self.passages)]
        return [item.placed(tokens=tokens) for item, tokens in zip(items, rows, strict=True)]


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
        InvalidInput: the model does not have a method of evidence.
    """
    if spec.contributions:
        _check_method(("matrix", "kind"), "contributions", model)
    for at, each in enumerate(spec.evidence):
        _check_method(("evidence", at, "method"), each.method, model)
    attention = next((each for each in spec.evidence if each.method == "attention"), None)
    vectors = {"multi_vector": MANY_VECTORS} if model.multi_vector_dim else {"tokens": UNIT_ROWS}
    return {
        **scores(model.score_output),
        **(vectors if spec.token_vectors else {}),
        **({"tokens": POOLED_ROWS} if spec.token_rows else {}),
        **({} if term_evidence(spec) is None else {"sparse": TERMS}),
        "attention": None
        if attention is None
        else AttentionSpec(
            layers=attention.layers,
            heads=attention.heads,
            reduce=("head_mean", "layer_mean", *(() if model.reranks else ("pooling_weights",))),
        ),
    }


def _check_method(field: Path, method: EvidenceMethod, model: ModelDescription) -> None:
    """Raise InvalidInput if the model does not have a method."""
    traits = METHODS[method]
    instead = traits.instead.get(model.score_output)
    if instead is not None:
        raise InvalidInput(field, Reason.NO_POOLED_METHOD, method=method, instead=instead)
    if not traits.token_rows:
        return
    if model.pooling != "mean":
        raise InvalidInput(field, Reason.POOLS_OTHERWISE, method=method, pooling=model.pooling)
    if "spans" not in model.outputs:
        raise InvalidInput(field, Reason.DENSE_UNKNOWN, method=method)
    if traits.rest and model.similarity not in ADDITIVE:
        why = f"the {model.similarity} distance"
        raise InvalidInput(field, Reason.NOT_ADDITIVE, why=why)


class Head(Protocol):
    """The layers behind pooling."""

    def __call__(self, vectors: Floats, /) -> Floats:
        """Apply them: float32 [N, dim] -> [N, pooled_dim]."""

    def is_affine(self, dim: int) -> bool:
        """Return whether they map a mean to the mean of what they map."""


def check_additive(spec: CompareSpec, head: Head, dim: int) -> None:
    """Raise InvalidInput if contributions were requested, and layers behind pooling mix tokens."""
    fields: list[Path] = [("matrix", "kind")] if spec.contributions else []
    fields += [
        ("evidence", at, "method")
        for at, each in enumerate(spec.evidence)
        if each.method == "contributions"
    ]
    if fields and not head.is_affine(dim):
        raise InvalidInput(fields[0], Reason.NOT_ADDITIVE, why="an activation behind pooling")


def evidence_names(spec: CompareSpec) -> dict[Path, Path]:
    """Return the names of requested outputs, as parts of the evidence that asks for them."""
    methods = [each.method for each in spec.evidence]
    names: dict[Path, Path] = {}
    if "terms" in methods:
        names[path_of(SPARSE)] = ("evidence", methods.index("terms"), "method")
    if "attention" not in methods:
        return names
    evidence, attention = ("evidence", methods.index("attention")), path_of(ATTENTION)
    return names | {
        (*attention, "layers"): (*evidence, "layers"),
        (*attention, "heads"): (*evidence, "heads"),
        attention: (*evidence, "method"),
        (*attention, "reduce"): (*evidence, "method"),
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
    query = inputs[0]
    plan = _Units(spec, manifest, measure)
    query_sides = plan.query_sides(query, values[0])
    planned, hidden = list[PlannedPassage](), list[OccludedUnit]()
    for each, units in zip(spec.evidence, query_sides, strict=True):
        if each.method == "occlusion" and units is not None:
            hidden += occluded_units(0, units, query, "query")
    for place, (tokenized, value) in enumerate(zip(inputs[1:], values[1:], strict=True)):
        compared = compared_tokens(tokenized)
        by_method = plan.passage_units(place, tokenized, value, compared, query_sides)
        for each, of_method in zip(spec.evidence, by_method, strict=True):
            if each.method == "occlusion":
                passage = f"passages[{place}]"
                hidden += occluded_units(place + 1, of_method.passage, tokenized, passage)
        matched = matched_tokens(tokenized) if many else compared
        length, left_out = len(tokenized.ids), tokenized.left_out
        planned.append(PlannedPassage(matched, tuple(by_method), length, left_out))
    if any(each.distinct and each.method == "late_interaction" for each in spec.evidence):
        rarities = token_rarities([each.ids for each in inputs[1:]])
        planned = [
            each._replace(rarity=rarity) for each, rarity in zip(planned, rarities, strict=True)
        ]
    terms = term_evidence(spec)
    most = 0 if terms is None else min(terms.top_k or USUAL, manifest.architecture.vocab_size)
    return ComparisonLayout(
        spec,
        matched_tokens(query) if many else compared_tokens(query),
        tuple(planned),
        tuple(hidden),
        output,
        measure,
        "multi_vector" if many else "tokens",
        min(most, USUAL),
        len(query.ids),
        query.left_out,
        manifest.normalize,
    )


class _Units:
    """The units of evidence of one comparison without pairs."""

    def __init__(self, spec: CompareSpec, manifest: Manifest, measure: str) -> None:
        self._evidence, self._manifest, self._measure = spec.evidence, manifest, measure

    def query_sides(self, tokenized: Tokenized, value: object) -> list[EvidenceUnits | None]:
        """Return the query's units of each evidence; None: they were not requested."""
        text = value if isinstance(value, str) else None
        return [
            query_units(each, tokenized, text, self._tokens(each, tokenized), f"evidence[{at}]")
            if each.query_units
            else None
            for at, each in enumerate(self._evidence)
        ]

    def passage_units(
        self,
        place: int,
        tokenized: Tokenized,
        value: object,
        compared: Ids,
        query_sides: Sequence[EvidenceUnits | None],
    ) -> list[PlannedUnits]:
        """Return the units of each evidence of one passage."""
        text, units = value if isinstance(value, str) else None, list[PlannedUnits]()
        made = dict[tuple[object, ...], EvidenceUnits]()  # methods often have the same units
        for at, (each, query) in enumerate(zip(self._evidence, query_sides, strict=True)):
            if not METHODS[each.method].units:
                units.append(PlannedUnits(EvidenceUnits(NO_TOKENS, NO_TOKENS)))
                continue
            tokens = self._tokens(each, tokenized, compared)
            key = each.unit, each.spans[place : place + 1], len(tokens)
            if key not in made:
                made[key] = units_of(each, place, tokenized, text, tokens, f"evidence[{at}]")
            passage, finer = divided(each, made[key], place, tokenized, text)
            many = self._manifest.architecture.multi_vector_dim > 0
            special = None
            if METHODS[each.method].rest or (many and each.method == "late_interaction"):
                special = single_tokens(len(tokenized.ids), [compared])
            units.append(PlannedUnits(passage, query, special, finer))
        return units

    def _tokens(self, spec: EvidenceSpec, tokenized: Tokenized, compared: Ids | None = None) -> Ids:
        """Return the tokens that belong to units."""
        tokens = compared_tokens(tokenized) if compared is None else compared
        if spec.method != "occlusion" or self._measure == MAX_SIM:
            return tokens
        return _without_pooled(tokens, self._manifest.pooling, tokenized)


def divided(
    spec: EvidenceSpec, units: EvidenceUnits, place: int, tokenized: Tokenized, text: str | None
) -> tuple[EvidenceUnits, EvidenceUnits | None]:
    """Return the units to hide first, and those that some of them are then divided into.

    Args:
        spec: the requested evidence.
        units: all of one passage.
        place: index of the passage.
        tokenized: the passage, with its tokens.
        text: the passage; None: it was given as ids, which have no sentences.
    """
    most, info = spec.max_encodings, tokenized.info
    if most is None or info is None or len(units) <= most:
        return units, None
    coarse = units
    if text is not None:
        sentences = dataclasses.replace(spec, unit="sentence")
        coarse = units_of(sentences, place, tokenized, text, units.tokens, "")
        units = cut_at(units, coarse, info)
    first = coarse.runs(most // 2)
    return (units.runs(most), None) if len(first) < 2 else (first, units)


def token_rarities(passages: Sequence[Ids]) -> list[Floats]:
    """Return the inverse document frequency of each token among passages, as BM25 has it.

    Of a single passage, all are 1.
    """
    count = len(passages)
    if count == 1:
        return [np.ones(len(passages[0]), np.float32)]
    each = np.concatenate([np.unique(ids) for ids in passages])
    known, within = np.unique(each, return_counts=True)
    rarity = np.log1p((count - within + 0.5) / (within + 0.5)).astype(np.float32)
    return [rarity[np.searchsorted(known, ids)] for ids in passages]


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
        sides, units_of_methods = pair_tokens(tokenized), list[PlannedUnits]()
        for at, each in enumerate(spec.evidence):
            hides = each.method == "occlusion"
            query, passage = (
                _without_pooled(side, manifest.pooling, tokenized) if hides else side
                for side in sides
            )
            every = units_of(each, place, tokenized, texts[1], passage, f"evidence[{at}]")
            coarse, finer = divided(each, every, place, tokenized, texts[1])
            units = PlannedUnits(
                coarse,
                query_units(each, tokenized, texts[0], query, "query"),
                None if hides else single_tokens(len(tokenized.ids), sides),
                finer,
            )
            if not hides and not len(sides[later]):
                field = f"passages[{place}]" if later else "query"
                raise InvalidInput(field, Reason.NO_ATTENDING_TOKENS)
            units_of_methods.append(units)
            if hides:
                hidden += [
                    OccludedUnit(place, tokens) for side in units.sides for tokens in side.each()
                ]
        planned.append(PlannedPassage(NO_TOKENS, tuple(units_of_methods), attending=sides[later]))
    return tuple(planned), tuple(hidden)


def _without_pooled(tokens: Ids, pooling: str, tokenized: Tokenized) -> Ids:
    """Leave out the token whose vector is the pooled vector: it cannot be hidden."""
    if not is_one_token(pooling):
        return tokens
    vector = pooled_token(pooling, len(tokenized.ids), tokenized.left_out)
    return np.delete(tokens, np.flatnonzero(tokens == vector))


def occluded_units(
    item: int, units: EvidenceUnits, tokenized: Tokenized, field: str
) -> list[OccludedUnit]:
    """Return what to hide of an item. Raises InvalidInput if nothing is left to pool."""
    first = tokenized.left_out
    occluded = [OccludedUnit(item, tokens) for tokens in units.each()]
    pooled = len(tokenized.ids) - first  # at most
    for unit in occluded:
        if len(unit.tokens) >= pooled == sum([token >= first for token in unit.tokens]):
            raise InvalidInput(field, Reason.SINGLE_UNIT)
    return occluded
