"""Other forms of attention, compared with what follows from PyTorch's whole maps.

A graph returns attention by one of five outputs (`headlight.outputs.maps.graph_selectors`). Whole
maps check only one of them; `FORMS` compare the other four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headlight.outputs.maps.resolved_spec import Choice
from headlight.spec import AttentionSpec

if TYPE_CHECKING:
    from headlight.runtime.values import Architecture, Arrays, Floats, Keys

TOP = 3
STEP = 2  # of the heads whose mean is taken: a mean of all heads hides a wrong order
Numbers = NDArray[np.floating[Any]]
Pairs = Iterator[tuple[Numbers, Numbers]]  # found and expected


def form(name: str, architecture: Architecture) -> Choice:
    """Return the choice for a name of FORMS, in all layers."""
    layers, heads = tuple(range(architecture.layers)), range(architecture.heads)
    specs = {
        "scores": AttentionSpec(layers=layers, scores=True),
        "head_mean": AttentionSpec(layers=layers, reduce=("head_mean",)),
        "pooling_weights": AttentionSpec(layers=layers, reduce=("pooling_weights",)),
        "top_k": AttentionSpec(layers=layers, top_k=TOP),
    }
    chosen = tuple(heads[::STEP] if name == "head_mean" else heads)
    # Independent of the model's pooling: the weights of "weighted_mean" differ from token to token,
    # so a swapped token is found.
    return Choice(specs[name], layers, (chosen,) * len(layers), "weighted_mean", by_graph=True)


def form_error(name: str, result: Arrays, maps: Floats) -> float:
    """Return max |Δ| of weights.

    The tolerance of attention applies to it: means and choices of weights are off by no more than
    the weights themselves.

    Args:
        name: a name of FORMS.
        result: the engine's result for `form`.
        maps: float32 [L, H, n, n], PyTorch's whole maps.

    Returns:
        The distance. Infinity if a number is not finite, or keys are invalid.
    """
    numbers = np.asarray(result["attention"], dtype=np.float64)
    with np.errstate(invalid="ignore"):  # numbers may not be finite
        pairs = FORMS[name](numbers, maps, result.get("attention_indices"))
        worst = [float(np.abs(got - expected).max(initial=0.0)) for got, expected in pairs]
    return max(worst) if np.isfinite(worst).all() else float("inf")


def _scores(scores: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    """Yield the softmax of scores: their rounding errors grow with size; only weights matter."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = weights.sum(axis=-1, keepdims=True)
    yield weights / np.where(sums == 0, 1, sums), maps  # a query that sees no key has no weights


def _head_mean(means: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield means, maps[:, ::STEP].mean(axis=1, dtype=np.float64)


def _pooling_weights(rows: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield rows, np.average(maps, axis=2, weights=np.arange(1.0, maps.shape[2] + 1))


def _top_k(entries: Numbers, maps: Floats, indices: Keys | None) -> Pairs:
    """Yield the entries twice: with the largest weights, and with the weights at their keys.

    Equal entries may have any order.
    """
    keys = np.asarray(indices, dtype=np.int64)
    ordered = np.sort(keys, axis=-1)
    if ordered.max(initial=0) >= maps.shape[-1] or (np.diff(ordered, axis=-1) == 0).any():
        yield entries, np.full_like(entries, np.inf)
        return
    yield entries, -np.sort(-maps, axis=-1)[..., : entries.shape[-1]]
    yield entries, np.take_along_axis(maps, keys, axis=-1)


FORMS: dict[str, Callable[[Numbers, Floats, Keys | None], Pairs]] = {
    "scores": _scores,
    "head_mean": _head_mean,
    "pooling_weights": _pooling_weights,
    "top_k": _top_k,
}
