"""Vectors of spans: what to ask for, and the result. Plain frozen values."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from headlight.results import ModelRef, TokenList
from headlight.spec import RowType, Span


class Windows(NamedTuple):
    """Windows of consecutive tokens, special tokens and prompt not counted.

    Attributes:
        size: tokens of a window, at least 1; the last window may be shorter.
        overlap: tokens that a window shares with the one before it, less than `size`.
    """

    size: int
    overlap: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpansSpec:
    """Requested vectors of spans; see `SpansOutput` in the contract.

    Attributes:
        kind: "sentences", windows of tokens, or the spans of each input.
        include_special: count special tokens around the text as part of every span that begins
            with the first token of the text, or ends with its last.
        pooling: "mean" averages the tokens of a span although the model pools otherwise; None
            refuses that.
        dimensions, normalize: as of pooled vectors.
        dtype: type of the numbers.
        beyond_max_length: encode a text that is too long in overlapping windows.
    """

    kind: Literal["sentences"] | Windows | tuple[tuple[Span, ...], ...]
    include_special: bool = False
    pooling: Literal["mean"] | None = None
    dimensions: int | None = None
    normalize: bool | None = None
    dtype: RowType = "float32"
    beyond_max_length: bool = False


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class SpanVectors:
    """The vectors of the spans of one text.

    Attributes:
        vectors: float32 or float16 [spans, D].
        characters: the characters of each span; empty for windows of an input given as ids.
        token_ranges: the tokens of each span; special tokens and the prompt in between are not
            part of its vector.
        tokens: all tokens of the text.
        window_starts: if the text was encoded in windows: the first token of the text in each.
        model: the weights.
    """

    vectors: NDArray[Any]
    characters: tuple[Span, ...]
    token_ranges: tuple[range, ...]
    tokens: TokenList
    model: ModelRef
    window_starts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.token_ranges)

    def __repr__(self) -> str:
        return f"<SpanVectors {self.model.name}: {len(self)} spans of {len(self.tokens)} tokens>"
