"""Plan of a comparison: what to compute of the query and of each passage, and how much it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headlight.comparison import CompareSpec, EvidenceSpec
from headlight.errors import InvalidInput, Reason
from headlight.outputs.maps.resolved_spec import ATTENTION, is_one_token
from headlight.outputs.maps.token_units import pooled_token
from headlight.refusals import Path, path_of
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.comparison.evidence_units import EvidenceUnits, compared_tokens, units_of
from headlight.runtime.comparison.late_interaction import BLOCK
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.plans.plan import OccludedUnit
from headlight.runtime.values import Ids, Tokenized
from headlight.spec import NUMBER_BYTES, AttentionSpec, TokensSpec

FLOAT_BYTES = 4
UNIT_ROWS = TokensSpec(normalize=True)


class PlannedPassage(NamedTuple):
    """Tokens of one passage.

    Attributes:
        compared: int64 [p], the tokens that late interaction compares.
        units: the units of each requested evidence.
    """

    compared: Ids
    units: tuple[EvidenceUnits, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonLayout:
    """Plan of a comparison.

    Attributes:
        spec: the request.
        query: int64 [q], the query's tokens that late interaction compares.
        passages: the tokens of each passage.
        occluded: units to hide, one after the other, passage by passage.
        measure: the similarity of pooled vectors; see `headlight.interface.similarity`.
    """

    spec: CompareSpec
    query: Ids
    passages: tuple[PlannedPassage, ...]
    occluded: tuple[OccludedUnit, ...] = ()
    measure: str = "cosine"

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
            for spec, units in zip(self.spec.evidence, passage.units, strict=True):
                numbers += returned(spec, units)
                if spec.method == "late_interaction" and len(passage.compared):
                    numbers += len(self.query)
        return numbers * FLOAT_BYTES + self.matrix_bytes

    def check_max_bytes(self) -> None:
        """Raise InvalidInput if the matrices are larger than the request allows."""
        size, most = self.matrix_bytes, self.spec.matrix_max_bytes
        if most is not None and size > most:
            raise InvalidInput("matrix.max_bytes", Reason.MATRICES_BYTES, size=size, most=most)

    def items(self, items: Sequence[EncodeItem]) -> list[EncodeItem]:
        """Return the items of query and passages with the rows of the compared tokens alone."""
        if not self.spec.token_vectors:
            return list(items)
        rows = [self.query, *(each.compared for each in self.passages)]
        return [item.placed(tokens=own) for item, own in zip(items, rows, strict=True)]


def returned(spec: EvidenceSpec, units: EvidenceUnits) -> int:
    """Return the number of units that an answer has."""
    return len(units) if spec.top_k is None else min(spec.top_k, len(units))


def comparison_outputs(spec: CompareSpec) -> dict[str, Any]:
    """Return the outputs to request of query and passages, as keywords of `Runtime.select`."""
    attention = next((each for each in spec.evidence if each.method == "attention"), None)
    return {
        "pooled": True,
        "tokens": UNIT_ROWS if spec.token_vectors else None,
        "attention": None
        if attention is None
        else AttentionSpec(
            layers=attention.layers,
            heads=attention.heads,
            reduce=("head_mean", "layer_mean", "pooling_weights"),
        ),
    }


def evidence_names(spec: CompareSpec) -> dict[Path, Path]:
    """Return the names of requested attention, as parts of the evidence that asks for it."""
    methods = [each.method for each in spec.evidence]
    if "attention" not in methods:
        return {}
    own, attention = ("evidence", methods.index("attention")), path_of(ATTENTION)
    return {
        (*attention, "layers"): (*own, "layers"),
        (*attention, "heads"): (*own, "heads"),
        attention: (*own, "method"),
        (*attention, "reduce"): (*own, "method"),
    }


def layout_of(
    spec: CompareSpec,
    manifest: Manifest,
    inputs: Sequence[Tokenized],
    values: Sequence[object],
) -> ComparisonLayout:
    """Return the plan of a comparison.

    Args:
        spec: checked for so many passages.
        manifest: of the model's bundle.
        inputs: the query, then the passages; with their tokens if `spec.details`.
        values: the same as given; only texts have words, sentences and spans.

    Raises:
        InvalidInput: a passage cannot have the units. Names the field.
    """
    measure = manifest.similarity or "cosine"
    if not spec.details:
        none = np.zeros(0, np.int64)
        passages = (PlannedPassage(none),) * (len(inputs) - 1)
        return ComparisonLayout(spec, none, passages, measure=measure)
    planned, occluded = list[PlannedPassage](), list[OccludedUnit]()
    for place, (tokenized, value) in enumerate(zip(inputs[1:], values[1:], strict=True)):
        text = value if isinstance(value, str) else None
        compared, found = compared_tokens(tokenized), list[EvidenceUnits]()
        made = dict[tuple[object, ...], EvidenceUnits]()  # methods often have the same units
        for at, each in enumerate(spec.evidence):
            hides = each.method == "occlusion"
            tokens = _without_pooled(compared, manifest.pooling, tokenized) if hides else compared
            key = each.unit, each.spans[place : place + 1], len(tokens)
            if key not in made:
                made[key] = units_of(each, place, tokenized, text, tokens, f"evidence[{at}]")
            found.append(made[key])
            if hides:
                occluded += _occluded_units(place, found[-1], tokenized)
        planned.append(PlannedPassage(compared, tuple(found)))
    query = compared_tokens(inputs[0])
    return ComparisonLayout(spec, query, tuple(planned), tuple(occluded), measure)


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
