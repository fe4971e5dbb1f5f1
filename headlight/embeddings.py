"""What the client gives back of vectors; see `headlight.results`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.results import ModelRef, TokenList
from headlight.spec import VectorType


class Usage(NamedTuple):
    """Tokens of a whole list: encoded (special ones and prompts included), of prompts alone, and before truncation."""

    tokens: int
    prompt_tokens: int
    original_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Embeddings:
    """Pooled vectors and what became of each input.

    Attributes:
        by_type: the vectors in each type asked, in that order: [N, D], or [N, D/8] bytes of bits, in the order of the inputs.
        token_counts: int64 [N], tokens encoded, special ones and the prompt included.
        prompt_token_counts: int64 [N], those of the prompt alone.
        original_token_counts: int64 [N], before truncation.
        model: which weights answered all of them.
    """

    by_type: Mapping[VectorType, NDArray[Any]]
    token_counts: NDArray[np.int64]
    prompt_token_counts: NDArray[np.int64]
    original_token_counts: NDArray[np.int64]
    model: ModelRef

    @property
    def vectors(self) -> NDArray[Any]:
        """The vectors in the first type asked: float32 [N, D] unless something else was."""
        return next(iter(self.by_type.values()))

    @property
    def usage(self) -> Usage:
        """Tokens in all."""
        counts = (self.token_counts, self.prompt_token_counts, self.original_token_counts)
        return Usage(*(int(each.sum()) for each in counts))

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """bool [N]: whether something was cut off."""
        cut: NDArray[np.bool_] = self.token_counts != self.original_token_counts
        return cut


@dataclasses.dataclass(frozen=True, slots=True)
class TokenVectors:
    """The vectors of some tokens of one text.

    Attributes:
        vectors: float32 or float16 [m, D].
        places: the tokens that they are of, in their order.
        tokens: all of the text.
        model: which weights answered.
    """

    vectors: NDArray[Any]
    places: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
