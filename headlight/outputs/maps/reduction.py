"""Reduction of one input's graph outputs to the requested attention.

`headlight.spec` gives the order of the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from headlight.outputs.maps.resolved_spec import Choice, is_one_token
from headlight.outputs.maps.token_units import Places, attention_shape, pooled_token
from headlight.outputs.vector_forms import halve, quantise
from headlight.spec import STATISTICS

if TYPE_CHECKING:
    from headlight.runtime.values import Arrays, Floats, Ids, Marks

# The graph's output for a layer: whole maps of some heads; the same before the softmax; one
# weighted mean of heads; combinations of rows; or the largest entries of each row.
Source = Literal["attention", "scores", "mixed", "rows", "top"]
TINY = np.finfo(np.float32).tiny
MASKED = -1e29  # below every score: the graph has -1e30 if a query does not see a key
# One element for each of Choice.layers, float32 of the item alone. "attention", "scores":
# [heads, n, n]; "mixed": [1, n, n]; "rows": [heads, rows, n]; "top": [heads, n, k] twice, the
# entries and their keys. The steps below take the same with a leading axis of layers, too.
Maps = Iterable[Any]
BLOCK = 1 << 16  # numbers whose largest are chosen at once: they stay in the cache
MAGNITUDE, LOW = np.int32((1 << 31) - 1), (1 << 32) - 1  # bits of a number without sign; of a key
# Maps that are reduced together: one call for all layers of a short text, and no second copy of
# large maps.
STACKED_BYTES = 1 << 20


def reduce_attention(choice: Choice, places: Places, source: Source, maps: Maps) -> Arrays:
    """Return one input's attention by tensor: values, their keys (top_k), scales of rows (uint8).

    Large maps are reduced layer by layer, so at most one layer is held twice.
    """
    spec, shape = choice.spec, attention_shape(choice, places)
    values = np.empty(shape, dtype=spec.dtype)
    indices = np.empty(shape, dtype=np.uint16) if spec.top_k else None
    scales = np.empty(shape[:-1], dtype=np.float32) if spec.dtype == "uint8" else None
    together = _stacks(choice, places, source)
    if together:
        maps = [
            tuple(map(np.stack, zip(*maps, strict=True))) if source == "top" else np.stack([*maps])
        ]
    by_layer = not together and choice.axes[0] in ("pair", "layer")
    for at, (entries, keys) in enumerate(_results(choice, places, source, maps)):
        place = (at,) if by_layer else ()
        part = entries.reshape(shape[len(place) :])
        if scales is not None:
            values[place], scales[place] = quantise(part)
        else:
            values[place] = halve(part) if spec.dtype == "float16" else part
        if indices is not None:
            indices[place] = keys.reshape(part.shape)
    tensors = {"attention": values, "attention_indices": indices, "attention_scales": scales}
    return {name: array for name, array in tensors.items() if array is not None}


def _stacks(choice: Choice, places: Places, source: Source) -> bool:
    """Return whether all layers are reduced together."""
    if "layers" in choice.reduced:
        return False
    whole = 4 * len(choice.layers) * len(choice.heads[0]) * places.length**2
    return source in ("mixed", "rows", "top") or whole <= STACKED_BYTES


def _results(
    choice: Choice, places: Places, source: Source, maps: Maps
) -> Iterator[tuple[Floats, Any]]:
    """Yield entries [..., heads or 1, queries, keys] and the keys of the largest.

    There is one pair for each element of `maps`, or one in all if layers are reduced.
    """
    spec = choice.spec
    if source == "top":
        rows = slice(None) if places.queries is None else places.queries.tokens
        for entries, keys in maps:
            yield entries[..., rows, :], ordered_keys(entries[..., rows, :], keys[..., rows, :])
        return
    for layer in _layers(choice, places, source, maps):
        if "statistics" in choice.reduced:
            yield statistics(layer, places), None
        else:
            weights = _grouped_queries(choice, places, source, layer)
            if places.keys is not None:  # columns are selected, then summed by unit
                starts, weights = places.keys.starts, weights[..., places.keys.tokens]
                weights = weights if starts is None else np.add.reduceat(weights, starts, axis=-1)
            if spec.top_k is None:
                yield weights, None
            else:
                yield largest(weights, spec.top_k)


def _layers(choice: Choice, places: Places, source: Source, maps: Maps) -> Iterator[Floats]:
    """Yield maps after all steps before the selection of queries."""
    reduced = choice.reduced.get("layers")
    ready = (_heads(choice, places, source, layer) for layer in maps)
    if reduced == "rollout":
        yield rollout(ready)
    elif reduced == "layer_mean":
        yield np.asarray(sum(ready), dtype=np.float32) / np.float32(len(choice.layers))
    else:
        yield from ready


def _heads(choice: Choice, places: Places, source: Source, maps: Floats) -> Floats:
    if source == "scores":
        return np.where(maps < MASKED, np.float32(-np.inf), maps)
    if choice.spec.drop_special and places.special is not None:
        maps = without(maps, places.special, rows_too=source != "rows")
    reduced = None if source == "mixed" else choice.reduced.get("heads")
    if reduced == "head_max":
        maps = maps.max(axis=-3, keepdims=True)
    elif reduced == "head_mean":
        maps = maps.mean(axis=-3, keepdims=True, dtype=np.float32)
    return maps


def without(maps: Floats, special: Marks, *, rows_too: bool) -> Floats:
    """Return maps float32 [..., rows, n] without the weight of special tokens.

    It becomes 0, and the rest of each row sums to 1 again. A row without other weight stays 0. Rows
    keep their places; later steps select no row of a special token.
    """
    kept = maps * ~special
    sums = kept.sum(axis=-1, keepdims=True)
    kept /= np.where(sums > 0, sums, np.float32(1))
    if rows_too:
        kept[..., special, :] = 0
    return kept


def rollout(maps: Iterator[Floats]) -> Floats:
    """Return the attention rollout: the product of A + I over the layers, last on the left.

    The result is [1, n, n]. Rows of A + I are scaled to sum to 1 (Abnar & Zuidema 2020, eq. 1).
    """
    product: Floats | None = None
    for [weights] in maps:
        # (A + I) P = A P + P, and the sums of A + I are those of A and 1.
        if product is None:
            mixed = weights + np.eye(len(weights), dtype=np.float32)
        else:
            mixed = weights @ product
            mixed += product
        mixed /= weights.sum(axis=-1, keepdims=True) + np.float32(1)
        product = mixed
    assert product is not None  # a model has layers
    return product[None]


def _grouped_queries(choice: Choice, places: Places, source: Source, maps: Floats) -> Floats:
    """Select rows, and average those of one unit: [..., h, queries, n]."""
    reduced, queries = choice.reduced.get("queries"), places.queries
    if source != "rows":
        if reduced == "pooling_weights":
            return (pooling_weights(choice, places) @ maps)[..., None, :]
        if reduced or queries is not None:
            maps = maps[..., row_tokens(choice, places), :]
    if reduced or queries is None or queries.starts is None:
        return maps
    sums: Floats = np.add.reduceat(maps, queries.starts, axis=-2)
    sums /= np.diff(queries.starts, append=len(queries.tokens))[:, None]  # tokens of each unit
    return sums


def row_tokens(choice: Choice, places: Places) -> Ids:
    """Return the tokens whose rows are requested: int64 [m]."""
    if choice.reduced.get("queries") == "pooled_row":
        return np.array([pooled_token(choice.pooling, places.length, places.left_out)])
    return np.arange(places.length) if places.queries is None else places.queries.tokens


def pooling_weights(choice: Choice, places: Places) -> Floats:
    """Return the share of each token in the pooled vector, scaled to sum 1: float32 [n].

    It is 0 for tokens that are dropped or left out.

    Raises:
        ValueError: the pooling has no weights, which is a bug.
    """
    weights = np.zeros(places.length, dtype=np.float32)
    if is_one_token(choice.pooling):
        weights[pooled_token(choice.pooling, places.length, places.left_out)] = 1
        return weights
    kept = (
        ~places.special
        if choice.spec.drop_special and places.special is not None
        else np.ones_like(weights, bool)
    )
    # Tokens left out count only if no other token is left.
    if kept[places.left_out :].any():
        kept[: places.left_out] = False
    match choice.pooling:
        case "mean" | "mean_sqrt_len":
            counts = np.ones(places.length)
        case "weighted_mean":  # the i-th token counts i times
            counts = np.arange(1.0, places.length + 1)
        case unknown:
            raise ValueError(f"pooling {unknown!r} gives tokens no weights")
    weights[kept] = counts[kept] / counts[kept].sum()
    return weights


def largest(rows: Floats, count: int) -> tuple[Floats, Ids]:
    """Return the largest entries of each row, in descending order, and their keys.

    Of equal entries, those of the first keys. Both are [..., min(count, n)].
    """
    n = rows.shape[-1]
    count = min(count, n)
    flat = rows.reshape(-1, n)
    entries = np.empty((len(flat), count), dtype=np.float32)
    keys = np.empty((len(flat), count), dtype=np.int64)
    step = max(1, BLOCK // n)
    for begin in range(0, len(flat), step):
        block = slice(begin, begin + step)
        # One integer has the entry and, below it, the key, so that one sort orders both.
        packed = _ordered(flat[block].view(np.int32)).astype(np.int64)
        packed <<= 32
        packed |= np.arange(n - 1, -1, -1)
        packed.partition(n - count, axis=-1)
        packed = np.sort(packed[:, n - count :], axis=-1)[:, ::-1]
        keys[block] = n - 1 - (packed & LOW)
        entries[block] = _ordered((packed >> 32).astype(np.int32)).view(np.float32)
    shape = (*rows.shape[:-1], count)
    return entries.reshape(shape), keys.reshape(shape)


def _ordered(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the bits of float32 as integers that are ordered as the numbers are; or the inverse.

    float32 has a sign and a magnitude, so the bits of negative numbers are in reverse order.
    """
    return bits if bits.min(initial=0) >= 0 else bits ^ (bits >> 31 & MAGNITUDE)


def ordered_keys(entries: Floats, keys: Ids) -> Ids:
    """Return the keys of the largest weights, with the keys of zero weights made deterministic.

    Zero weights at a row's end get the first keys of weight zero, as in ONNX. OpenVINO returns any
    of them: they vary with the batch, and may lie in the padding.

    Args:
        entries: float32 [..., k], descending.
        keys: int64 [..., k]; not changed.
    """
    tied = entries[..., -1] == 0
    if not tied.any():
        return keys
    count = keys.shape[-1]
    weighs, named = entries[tied] > 0, keys[tied]
    # Fewer than k keys have weight, so those that fill up a row are among the first k. Column k
    # takes all keys beyond them.
    taken = np.zeros((len(named), count + 1), dtype=bool)
    np.put_along_axis(taken, np.where(weighs, np.minimum(named, count), count), True, axis=-1)
    free = np.argsort(taken[:, :count], axis=-1, kind="stable")
    fill = np.take_along_axis(free, np.maximum(np.cumsum(~weighs, axis=-1) - 1, 0), axis=-1)
    ordered = keys.copy()
    ordered[tied] = np.where(weighs, named, fill)
    return ordered


def statistics(maps: Floats, places: Places) -> Floats:
    """Return the mean over the queries of each of STATISTICS.

    Args:
        maps: float32 [..., H, n, n].
        places: the input's tokens.

    Returns:
        float32 [..., H, statistics].
    """
    n = places.length
    rows = np.arange(n) if places.queries is None else places.queries.tokens
    weights = maps if places.queries is None else maps[..., rows, :]
    # Keys are missing only if special tokens are dropped.
    left = (
        np.ones(n, dtype=bool) if places.keys is None else np.isin(np.arange(n), places.keys.tokens)
    )
    numbers = np.zeros((*maps.shape[:-2], len(STATISTICS)), dtype=np.float64)
    # 0 log(TINY) is 0; a logarithm with `where=` takes three times as long.
    logs = np.log(weights + TINY)
    numbers[..., 0] = -_mean_of_rows(np.einsum("...k,...k->...", weights, logs))
    if places.special is None:
        numbers[..., 1] = np.nan
    else:
        numbers[..., 1] = _mean_of_rows(weights @ places.special.astype(np.float32))
    for at, step in ((2, -1), (3, 1), (4, 0)):
        there = rows + step
        has = (there >= 0) & (there < n)
        has[has] = left[there[has]]
        if has.any():
            numbers[..., at] = _mean_of_rows(weights[..., has, there[has]])
    far = np.abs(rows[:, None] - np.arange(n)).astype(np.float32)
    numbers[..., 5] = _mean_of_rows(np.einsum("...qk,qk->...q", weights, far))
    numbers[..., 6] = _mean_of_rows(weights.max(axis=-1))
    return numbers.astype(np.float32)


def _mean_of_rows(rows: Floats) -> NDArray[np.float64]:
    """Return the mean over the last axis, summed in float64."""
    mean: NDArray[np.float64] = rows.mean(axis=-1, dtype=np.float64)
    return mean
