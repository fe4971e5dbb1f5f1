"""Plain values that all of the runtime shares."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headlight.results import TokenList

Role = Literal["embed", "attend"]
Ids = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Tokenized:
    """One input after tokenising: ids int64 [n]; its length before truncation; its tokens where they were asked for.

    segments: int64 [n]; None: zeros.
    words: int64 [n], a number for each word, rising by 1; every special token has its own. None where `info` is, and for ids.
    """

    ids: Ids
    original_length: int
    info: TokenList | None
    segments: Ids | None = None
    words: Ids | None = None

    @property
    def truncated(self) -> bool:
        return self.original_length != len(self.ids)
