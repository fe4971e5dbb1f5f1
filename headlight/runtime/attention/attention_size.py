"""How large an item's attention will be, in which shape, and from what the graph is to give: known before anything runs."""

from __future__ import annotations

import math
from typing import Literal

from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.attention.token_units import Places
from headlight.spec import NUMBER_BYTES, STATISTICS

INDEX_BYTES = 2  # uint16; headlight.runtime.attention.token_units sees to it that it is enough
SCALE_BYTES = 4  # float32
# Rows that are computed one by one rather than cut out of whole maps: the share of all at which whole maps are cheaper.
FEW_ROWS = 1 / 8
# What the graph gives of a layer: whole maps of some heads; before the softmax; one weighted mean of heads; combinations of rows;
# or the largest entries of each row.
Source = Literal["attention", "scores", "mixed", "rows", "top"]


def attention_shape(choice: Choice, places: Places) -> tuple[int, ...]:
    """The extents of an item's result: one for each of `choice.axes`."""
    keys = places.count(places.keys)
    extents = {
        "pair": len(choice.layers),
        "layer": len(choice.layers),
        "head": len(choice.heads[0]) if choice.heads else 0,
        "query": places.count(places.queries),
        "key": keys,
        "top": min(keys, choice.spec.top_k or 0),
        "statistic": len(STATISTICS),
    }
    return tuple(extents[axis] for axis in choice.axes)


def attention_bytes(choice: Choice, places: Places) -> int:
    """Bytes of an item's numbers, indices and scales."""
    shape = attention_shape(choice, places)
    entries = math.prod(shape)
    size = NUMBER_BYTES[choice.spec.dtype] + (INDEX_BYTES if choice.spec.top_k else 0)
    scales = math.prod(shape[:-1]) * SCALE_BYTES if choice.spec.dtype == "uint8" else 0
    return entries * size + scales


def source_of(choice: Choice, places: Places) -> Source:
    """The cheapest of what the graph can give that an item's result follows from (measured: bench/results/attention.md)."""
    spec = choice.spec
    if spec.scores:
        return "scores"
    if "statistics" in spec.reduce:
        return "attention"
    if _by_rows(choice, places):
        return "rows"
    if choice.reduced.get("heads") == "head_mean" and not spec.drop_special:
        return "mixed"
    whole = places.keys is None and spec.unit == "token" and not spec.reduce and not spec.drop_special
    return "top" if whole and spec.top_k and spec.top_k < places.length else "attention"


def _by_rows(choice: Choice, places: Places) -> bool:
    """Few rows, all the rest of whose fate is linear or their own."""
    spec, reduced = choice.spec, choice.reduced.get("queries")
    if "rollout" in spec.reduce:
        return False
    if reduced == "pooling_weights":
        return choice.reduced.get("heads") != "head_max" and not spec.drop_special
    if reduced == "pooled_row":
        return True
    return places.queries is not None and len(places.queries.tokens) <= FEW_ROWS * places.length
