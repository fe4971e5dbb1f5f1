"""Sums of token vectors by span, which the engine computes of each item.

A sum, unlike a mean, can be put together from parts of a long text.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.values import Floats, Ids

SUM_BYTES = 8  # a number of float64


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SpanRows:
    """The tokens of an item that its spans sum, and the spans among them.

    Attributes:
        tokens: int64 [m], tokens of the item, ascending.
        begins, ends: int64 [s], the tokens of each span: tokens[begin:end].
        places: int64 [s], places of these spans among those of the input.
        vectors: number of vectors of the answer that are counted with this item: those of its
            input, or 0 for another window of the same input.
    """

    tokens: Ids
    begins: Ids
    ends: Ids
    places: Ids
    vectors: int

    def sums(self, vectors: Floats) -> NDArray[np.float64]:
        """Return the sum of each span's token vectors: float32 [n, D] -> float64 [s, D].

        In float64, spans may be differences of running sums: 10,000 long spans cost no more than
        one pass.
        """
        running = np.zeros((len(self.tokens) + 1, vectors.shape[1]))
        np.cumsum(vectors[self.tokens], axis=0, dtype=np.float64, out=running[1:])
        return running[self.ends] - running[self.begins]
