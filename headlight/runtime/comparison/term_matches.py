"""Terms that two sparse vectors share: the parts of their dot product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headlight.outputs.registry import OUTPUTS
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.values import Floats, Ids


class TermMatches(NamedTuple):
    """Terms of the vocabulary that a query and a passage both have, the largest product first.

    Attributes:
        terms: int64 [m].
        query, passage: float32 [m], the weight of each in both.
    """

    terms: Ids
    query: Floats
    passage: Floats

    @property
    def products(self) -> Floats:
        """float32 [m], the parts of the dot product."""
        products: Floats = self.query * self.passage
        return products

    @property
    def score(self) -> float:
        """The dot product."""
        return float(self.products.sum(dtype=np.float64))

    def chosen(self, places: Ids) -> TermMatches:
        """Return some of them, in this order."""
        return TermMatches(self.terms[places], self.query[places], self.passage[places])

    def largest(self, count: int | None) -> TermMatches:
        """Return the first of them; None: all."""
        return self.chosen(np.arange(len(self.terms))[:count])


def term_matches(query: ItemResult, passage: ItemResult) -> TermMatches:
    """Return the terms that two results share; of equal products the lower term first."""
    mine, its = (OUTPUTS["sparse"].spelled(each) for each in (query, passage))
    terms, at, of = np.intersect1d(mine, its, assume_unique=True, return_indices=True)
    shared = TermMatches(terms, query["sparse"][at], passage["sparse"][of])
    return shared.chosen(np.argsort(-shared.products, kind="stable"))
