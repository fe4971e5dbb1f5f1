"""Reference implementation of every form of attention, step by step from whole maps.

It is slow, computes in float64, and shares no code with the product but the specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.spec import AttentionSpec, Run, Span

Doubles = NDArray[np.float64]


class Text(NamedTuple):
    """One input: whole maps [L, H, n, n] of weights and of scores, and its tokens."""

    weights: NDArray[Any]
    scores: NDArray[Any]
    special: Sequence[bool]
    starts: Sequence[int]
    ends: Sequence[int]
    words: Sequence[int]  # a number of each token's word
    pooling: str


class Expected(NamedTuple):
    """Numbers before they are rounded to a type.

    For top_k, all numbers of each row, in descending order.
    """

    values: Doubles
    rows: Doubles  # before top_k


def numbers(indices: Sequence[int | Run], count: int) -> list[int]:
    """Return absolute layers or heads."""
    found: list[int] = []
    for index in indices:
        found += (
            list(range(count))[index.begin : index.end]
            if isinstance(index, Run)
            else [list(range(count))[index]]
        )
    return found or list(range(count))


def units(spec: AttentionSpec, choice: Any, text: Text) -> list[list[int]]:
    """Return the tokens of each place of an axis."""
    n = len(text.special)
    if choice == "all":
        tokens = list(range(n))
    elif choice == "first":
        tokens = [0]
    elif choice == "pooled":
        tokens = [0 if text.pooling == "cls" else n - 1]
    elif choice == "special":
        tokens = [i for i in range(n) if text.special[i]]
    elif isinstance(choice, Span):
        tokens = covered(choice, text)
    else:
        tokens = [list(range(n))[i] for i in choice]
    if spec.drop_special:
        tokens = [i for i in tokens if not text.special[i]]
    if spec.unit == "token":
        return [[i] for i in tokens]
    if spec.unit == "span":
        return [[i for i in covered(span, text) if i in tokens] for span in spec.spans]
    grouped: list[list[int]] = []
    for i in tokens:
        if grouped and text.words[grouped[-1][-1]] == text.words[i]:
            grouped[-1].append(i)
        else:
            grouped.append([i])
    return grouped


def covered(span: Span, text: Text) -> list[int]:
    """Return the tokens that share a character with a span."""
    own = range(len(text.special))
    return [
        i
        for i in own
        if not text.special[i] and set(range(text.starts[i], text.ends[i])) & set(range(*span[:2]))
    ]


def expected(spec: AttentionSpec, text: Text) -> Expected:
    """Apply all steps, in the order of headlight.spec."""
    maps = np.array(text.scores if spec.scores else text.weights, dtype=np.float64)
    layers, heads, n, _ = maps.shape
    if spec.drop_special:
        for i in range(n):
            if text.special[i]:
                maps[..., i] = 0
        maps = maps / np.maximum(maps.sum(-1, keepdims=True), 1e-300)
    if spec.pairs:
        chosen = np.stack([maps[layer, head] for layer, head in spec.pairs])[:, None]
    else:
        chosen = maps[numbers(spec.layers, layers)][:, numbers(spec.heads, heads)]
    reduced_heads = (
        "head_max" in spec.reduce or "head_mean" in spec.reduce or "rollout" in spec.reduce
    )
    if "head_max" in spec.reduce:
        chosen = chosen.max(axis=1, keepdims=True)
    elif reduced_heads:
        chosen = chosen.mean(axis=1, keepdims=True)
    if "layer_mean" in spec.reduce:
        chosen = chosen.mean(axis=0, keepdims=True)
    if "rollout" in spec.reduce:
        product = np.eye(n)
        for layer in chosen[:, 0]:
            mixed = layer + np.eye(n)
            product = (mixed / mixed.sum(-1, keepdims=True)) @ product
        chosen = product[None, None]
    if "statistics" in spec.reduce:
        values = np.array(
            [
                [
                    statistics(
                        one, units(spec, spec.queries, text), text, drop_special=spec.drop_special
                    )
                    for one in layer
                ]
                for layer in chosen
            ]
        )
        return Expected(drop_axes(spec, values), values)
    rows = combined(spec, chosen, text)
    keys = units(spec, spec.keys, text)
    whole = np.stack([rows[..., tokens].sum(-1) for tokens in keys], axis=-1)
    kept = -np.sort(-whole, axis=-1)[..., : spec.top_k] if spec.top_k else whole
    return Expected(drop_axes(spec, kept), drop_axes(spec, whole))


def combined(spec: AttentionSpec, maps: Doubles, text: Text) -> Doubles:
    """Return the combined maps, [L, H, queries, n]."""
    n = maps.shape[-1]
    if "pooled_row" in spec.reduce:
        return maps[:, :, [0 if text.pooling == "cls" else n - 1]]
    if "pooling_weights" in spec.reduce:
        tokens = [i for i in range(n) if not (spec.drop_special and text.special[i])]
        if text.pooling in ("cls", "last"):
            tokens = [0 if text.pooling == "cls" else n - 1]
        elif text.pooling not in ("mean", "mean_sqrt_len", "weighted_mean"):
            raise NotImplementedError(f"pooling {text.pooling}")
        shares = [token + 1 if text.pooling == "weighted_mean" else 1 for token in tokens]
        mean: Doubles = np.average(maps[:, :, tokens], axis=2, weights=shares)
        return mean[:, :, None]
    return np.stack(
        [maps[:, :, tokens].mean(axis=2) for tokens in units(spec, spec.queries, text)], axis=2
    )


def statistics(
    map_: Doubles, queries: list[list[int]], text: Text, *, drop_special: bool = False
) -> list[float]:
    """Return the seven statistics of a head."""
    n, rows = len(map_), [i for [i] in queries]
    left = {i for i in range(n) if not (drop_special and text.special[i])}

    def neighbour(step: int) -> float:
        return float(np.mean([map_[i, i + step] for i in rows if i + step in left] or [0.0]))

    return [
        float(np.mean([-sum(w * np.log(w) for w in map_[i] if w > 0) for i in rows])),
        float(np.mean([sum(map_[i, j] for j in range(n) if text.special[j]) for i in rows])),
        neighbour(-1),
        neighbour(1),
        neighbour(0),
        float(np.mean([sum(map_[i, j] * abs(i - j) for j in range(n)) for i in rows])),
        float(np.mean([map_[i].max() for i in rows])),
    ]


def drop_axes(spec: AttentionSpec, values: Doubles) -> Doubles:
    """Return the array without the reduced axes.

    Before: [L or pairs, H or 1, queries, keys].
    """
    gone = []
    if spec.pairs or {"head_mean", "head_max", "rollout"} & set(spec.reduce):
        gone.append(1)
    if {"layer_mean", "rollout"} & set(spec.reduce):
        gone.append(0)
    if {"pooled_row", "pooling_weights"} & set(spec.reduce):
        gone.append(2)
    return np.squeeze(values, axis=tuple(gone))


def check(
    spec: AttentionSpec,
    text: Text,
    weights: NDArray[Any],
    values: NDArray[Any],
    indices: Any,
    tolerance: float,
) -> None:
    """Assert that an answer equals the reference, within a tolerance.

    Args:
        weights: the answer as float32.
        values, indices: as sent.
        tolerance: of float32 weights: absolute; of scores and statistics over max(1, their range).
    """
    wanted = expected(spec, text)
    assert weights.shape == wanted.values.shape
    seen = np.isfinite(wanted.values)
    allowed: Any = tolerance
    if spec.scores or "statistics" in spec.reduce:
        allowed = tolerance * max(1.0, float(np.ptp(wanted.values[seen])) if seen.any() else 0.0)
    if spec.dtype == "float16":
        allowed = np.maximum(1e-3, np.abs(np.where(seen, wanted.values, 0)) * 1e-3)
    if spec.dtype == "uint8":
        allowed = tolerance + wanted.values.max(-1, keepdims=True) / 255 / 2
    difference = np.abs(np.where(seen, weights, 0) - np.where(seen, wanted.values, 0))
    assert (difference <= allowed).all(), float((difference - allowed).max())
    assert (weights[~seen] == wanted.values[~seen]).all()
    if spec.top_k:
        at_those = np.take_along_axis(wanted.rows, indices.astype(np.int64), axis=-1)
        close = np.abs(
            np.where(seen, at_those, 0) - np.where(seen, wanted.values, 0)
        ) <= np.maximum(allowed, 1e-5)
        assert (close & (np.isfinite(at_those) == seen)).all()
        assert all(len(set(row)) == len(row) for row in indices.reshape(-1, indices.shape[-1]))
