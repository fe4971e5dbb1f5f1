"""Methods of evidence: one row for each, which every surface reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

EvidenceMethod = Literal[
    "span", "contributions", "occlusion", "late_interaction", "attention", "terms"
]

# Options of `EvidenceSpec` that some methods do not take.
METHOD_OPTIONS = ("distinct", "per_token", "query_units", "max_encodings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MethodTraits:
    """One method: its name, what it needs, and which options it takes.

    Attributes:
        title: its name in texts.
        meaning: a unit's weight in a few words.
        of_pairs: the same of a model that reranks; "": it has none of this method.
        sums: whether a unit's weight is the sum over its tokens, and so may be divided by them.
        units: whether the passage has units with weights.
        query: whether units of the query can have weights as well.
        distinct: whether what the passages of a call share can be weighed down; see `EvidenceSpec`.
        encodes: whether it encodes the passage again for each unit, so that their number can be
            limited.
        rest: whether the passage's other tokens have weights, so that all sum to the score.
        token_rows: whether it reads the passage's token vectors as pooling reads them.
        instead: the method to use of a model without a vector of a text, by the output that gives
            its score; {}: every model that compares vectors has it.
    """

    title: str
    meaning: str
    of_pairs: str = ""
    sums: bool = True
    units: bool = True
    query: bool = True
    distinct: bool = False
    encodes: bool = False
    rest: bool = False
    token_rows: bool = False
    instead: Mapping[str, EvidenceMethod] = dataclasses.field(default_factory=dict)

    def takes(self, option: str) -> bool:
        """Return whether it takes an option of `EvidenceSpec`, by its name."""
        options = {
            "distinct": self.distinct,
            "per_token": self.sums,
            "query_units": self.query,
            "max_encodings": self.encodes,
        }
        return options[option]


# Of models that are compared by sparse vectors, and by many vectors of each text.
WITHOUT_VECTOR: Mapping[str, EvidenceMethod] = {
    "sparse": "terms",
    "multi_vector": "late_interaction",
}
# In the order in which they are offered: by how often they find the sentence that answers
# (bench/results/evidence.md). Terms are for models of their own.
METHODS: Mapping[EvidenceMethod, MethodTraits] = {
    "span": MethodTraits(
        title="span",
        meaning="the similarity of the query with its span vector",
        sums=False,
        token_rows=True,
        instead=WITHOUT_VECTOR,
    ),
    "contributions": MethodTraits(
        title="contributions",
        meaning="its part of the score; with the other tokens', all sum to it",
        distinct=True,
        rest=True,
        token_rows=True,
        instead=WITHOUT_VECTOR,
    ),
    "occlusion": MethodTraits(
        title="occlusion",
        meaning="how far the score falls without it",
        of_pairs="how far the score falls without it",
        encodes=True,
    ),
    "late_interaction": MethodTraits(
        title="late interaction",
        meaning="its part of max-sim",
        distinct=True,
    ),
    "attention": MethodTraits(
        title="attention",
        meaning="what the vector reads from; attention is not an explanation",
        of_pairs=(
            "what the query's tokens read from, of a decoder the passage's; "
            "attention is not an explanation"
        ),
        query=False,
        instead=WITHOUT_VECTOR,
    ),
    "terms": MethodTraits(
        title="terms",
        meaning=(
            "a term's weight in the query times that in the passage; all sum to their dot product"
        ),
        sums=False,
        units=False,
        query=False,
    ),
}
EVIDENCE_METHODS: tuple[EvidenceMethod, ...] = tuple(METHODS)
# Methods with weights of a passage's units.
UNIT_METHODS: tuple[EvidenceMethod, ...] = tuple(
    name for name, traits in METHODS.items() if traits.units
)
