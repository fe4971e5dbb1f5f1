"""What goes into the engine and what comes out: plain, picklable values that know neither a transport nor a queue."""

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
class Selection:
    """The outputs wanted of one input."""

    pooled: bool = True
    tokens: bool = False
    attention: tuple[int, ...] = ()  # absolute layers, in the order wanted
    hidden: tuple[int, ...] = ()  # 0: the embeddings; l: the output of block l

    @property
    def role(self) -> Role:
        """The graph that can serve it: `embed` is cheaper and has no more than vectors."""
        return "attend" if self.attention or self.hidden else "embed"

    def output_elements(self, length: int, dim: int, heads: int) -> dict[str, int]:
        """Numbers in each output of an input of `length` tokens, 0 where it is not wanted: known before anything runs."""
        return {
            "pooled": dim if self.pooled else 0,
            "tokens": length * dim if self.tokens else 0,
            "attention": len(self.attention) * heads * length * length,
            "hidden": len(self.hidden) * length * dim,
        }

    def output_bytes(self, length: int, dim: int, heads: int) -> int:
        """Bytes of float32 results for an input of `length` tokens."""
        return 4 * sum(self.output_elements(length, dim, heads).values())


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeItem:
    """One input as the engine takes it, checked by whoever builds it."""

    ids: Ids  # int64 [n], n >= 1, each in 0 .. vocab_size-1
    selection: Selection
    # int64 [n], each in 0 .. segments-1; None: zeros; not looked at by a model without segments
    segments: Ids | None = None
    head_mask: Floats | None = None  # float32 [L, H], by which what each head contributes is multiplied; None: ones

    @property
    def role(self) -> Role:
        """The graph that can serve it: a head mask is an input of `attend` alone."""
        return self.selection.role if self.head_mask is None else "attend"


@dataclasses.dataclass(frozen=True, slots=True)
class ItemResult:
    """The outputs of one input of n tokens, padding removed; each C-contiguous, None where it was not wanted."""

    pooled: Floats | None  # [D]
    tokens: Floats | None  # [n, D]
    attention: Floats | None  # [layers wanted, H, n, n]: rows are queries, columns keys
    hidden: Floats | None  # [layers wanted, n, D]


@dataclasses.dataclass(frozen=True, slots=True)
class Tokenized:
    """One input after tokenising: ids int64 [n]; its length before truncation; its tokens where they were asked for.

    segments: int64 [n]; None: zeros.
    """

    ids: Ids
    original_length: int
    info: TokenList | None
    segments: Ids | None = None

    @property
    def truncated(self) -> bool:
        return self.original_length != len(self.ids)
