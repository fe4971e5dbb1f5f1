"""Plain values that all of the runtime shares."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.results import TokenList

Role = Literal["embed", "attend"]
Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Keys = NDArray[np.uint16]  # of the largest weights of a row
Marks = NDArray[np.bool_]  # of tokens, mostly
Array = NDArray[Any]  # in the type that was asked for
Arrays = dict[str, Array]


class Tokenized(NamedTuple):
    """One input after tokenising: ids int64 [n]; its length before truncation; its tokens where they were asked for.

    segments: int64 [n]; None: zeros.
    words: int64 [n], a number for each word, rising by 1; every special token has its own. None where `info` is, and for ids.
    prompt_length: how many of the ids stand for the prompt alone.
    left_out: ids at the start that pooling leaves out, of models that are not to pool their prompts.
    """

    ids: Ids
    original_length: int
    info: TokenList | None
    segments: Ids | None = None
    words: Ids | None = None
    prompt_length: int = 0
    left_out: int = 0
