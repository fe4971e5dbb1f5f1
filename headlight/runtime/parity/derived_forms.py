"""Attention in the forms that a graph makes of whole maps by itself: how far they are from what follows from PyTorch's maps.

Whole maps leave a graph by one of five ways (`headlight.runtime.attention.graph_selectors`), and say nothing of the other four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.encode_items import ItemResult, Selection
from headlight.runtime.values import Floats
from headlight.spec import AttentionSpec

TOP = 3
STEP = 2  # of the heads whose mean is taken: of all heads it would be the same in any order
Numbers = NDArray[np.floating[Any]]
Pairs = Iterator[tuple[Numbers, Numbers]]  # of what was found and what should have been


def form(name: str, architecture: Architecture) -> Selection:
    """What is to be asked for: a name of FORMS, of all layers."""
    layers, heads = tuple(range(architecture.layers)), range(architecture.heads)
    specs = {
        "scores": AttentionSpec(layers=layers, scores=True),
        "head_mean": AttentionSpec(layers=layers, reduce=("head_mean",)),
        "pooling_weights": AttentionSpec(layers=layers, reduce=("pooling_weights",)),
        "top_k": AttentionSpec(layers=layers, top_k=TOP),
    }
    chosen = tuple(heads[::STEP] if name == "head_mean" else heads)
    # Whatever the model pools by: the weights of "weighted_mean" differ from token to token, so that none passes for another.
    return Selection(attention=Choice(specs[name], layers, (chosen,) * len(layers), "weighted_mean"))


def form_error(name: str, result: ItemResult, maps: Floats) -> float:
    """max |Δ| of weights.

    Args:
        name: of FORMS.
        result: what the engine gave for `form`.
        maps: float32 [L, H, n, n], whole, of PyTorch.

    Returns:
        What the tolerance of attention bounds: means and choices of weights are off by no more than these are. Infinity where
        something is not finite, or keys are none.
    """
    with np.errstate(invalid="ignore"):  # of what is not finite
        worst = [float(np.abs(got - expected).max(initial=0.0)) for got, expected in FORMS[name](result, maps)]
    return max(worst) if np.isfinite(worst).all() else float("inf")


def _scores(result: ItemResult, maps: Floats) -> Pairs:
    """Their softmax: how far rounding moves scores themselves depends on how large they are, and weights are what comes of them."""
    scores = _found(result)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = weights.sum(axis=-1, keepdims=True)
    yield weights / np.where(sums == 0, 1, sums), maps  # a query that sees no key has no weights


def _head_mean(result: ItemResult, maps: Floats) -> Pairs:
    yield _found(result), maps[:, ::STEP].mean(axis=1, dtype=np.float64)


def _pooling_weights(result: ItemResult, maps: Floats) -> Pairs:
    yield _found(result), np.average(maps, axis=2, weights=np.arange(1.0, maps.shape[2] + 1))


def _top_k(result: ItemResult, maps: Floats) -> Pairs:
    """Entries are the largest, and lie where the keys say. Which of equal ones come, is not said."""
    entries, keys = _found(result), np.asarray(result.indices, dtype=np.int64)
    n, count = maps.shape[-1], entries.shape[-1]
    ordered = np.sort(keys, axis=-1)
    if ordered.max(initial=0) >= n or (np.diff(ordered, axis=-1) == 0).any():
        yield entries, np.full_like(entries, np.inf)
        return
    yield entries, -np.sort(-maps, axis=-1)[..., :count]
    yield entries, np.take_along_axis(maps, keys, axis=-1)


def _found(result: ItemResult) -> NDArray[np.float64]:
    return np.asarray(result.attention, dtype=np.float64)


FORMS: dict[str, Callable[[ItemResult, Floats], Pairs]] = {
    "scores": _scores,
    "head_mean": _head_mean,
    "pooling_weights": _pooling_weights,
    "top_k": _top_k,
}
