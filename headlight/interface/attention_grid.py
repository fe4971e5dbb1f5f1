"""Attention of one text as layers of heads of rows, whatever its axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from headlight.results import AttentionPiece


def grid(axes: Sequence[str], shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a tensor's extents for chunks: layers (or pairs), heads, rows, width; 1 if absent."""
    sizes = dict(zip(axes, shape, strict=True))
    planes, heads = sizes.get("layer", sizes.get("pair", 1)), sizes.get("head", 1)
    # Scales lack the last axis of their numbers. If queries are reduced, the last axis left is
    # heads, pairs or layers.
    width = 1 if not axes or axes[-1] in ("layer", "pair", "head") else shape[-1]
    rows = math.prod(shape) // max(1, planes * heads * width)
    return planes, heads, rows, width


def layer_pieces(
    axes: Sequence[str], layers: Sequence[int], values: NDArray[Any]
) -> Iterator[AttentionPiece]:
    """Yield the attention of one text as a piece for each layer or pair."""
    # Reduced layers are one, named by the first.
    for layer, maps in zip(layers, values.reshape(grid(axes, values.shape)), strict=False):
        yield AttentionPiece(layer, range(maps.shape[0]), range(maps.shape[1]), maps)
