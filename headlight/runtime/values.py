"""Plain value types shared by the whole runtime."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.results import TokenList

GraphRole = Literal["embed", "attend"]  # of a graph that encodes; `head` follows pooling
Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Keys = NDArray[np.uint16]  # of the largest weights of a row
Marks = NDArray[np.bool_]  # usually of tokens
Array = NDArray[Any]  # in the requested type
Arrays = dict[str, Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The shape of the encoder."""

    positions: str
    layers: int
    heads: int
    dim: int
    pooled_dim: int  # width of pooled vectors; a layer after pooling can make it differ from `dim`
    vocab_size: int
    segments: int = 0  # token types; 0: the graphs have no input for them
    labels: int = 0  # scores of a text, or of each token; 0: the model gives vectors alone
    token_labels: bool = False  # each token has scores
    causal: bool = False  # a token sees itself and earlier tokens alone
    terms: bool = False  # a text has a weight for each term of the vocabulary
    token_terms: bool = False  # only for those of its tokens, and the graphs give it of each token
    multi_vector_dim: int = 0  # of a vector of each token that is matched alone; 0: none


class Tokenized(NamedTuple):
    """One tokenised input: ids int64 [n], length before truncation, and tokens if requested.

    segments: int64 [n]; None: zeros.
    words: int64 [n], a number for each word, rising by 1; every special token has its own. None if
        `info` is None, and for ids.
    prompt_length: number of ids that stand only for the prompt.
    left_out: number of ids at the start that pooling leaves out, if the model does not pool
        prompts.
    occluded: tokens that no token sees: they fill a query up.
    matched: int64 [m], the tokens that a search matches one by one; None: all.
    """

    ids: Ids
    original_length: int
    info: TokenList | None
    segments: Ids | None = None
    words: Ids | None = None
    prompt_length: int = 0
    left_out: int = 0
    occluded: tuple[int, ...] = ()
    matched: Ids | None = None
