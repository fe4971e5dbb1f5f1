"""Error of derived forms of attention against whole maps.

Correct ones have none; wrong ones have their actual error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight.outputs.maps.derived_forms import FORMS, TOP, form, form_error
from headlight.outputs.maps.graph_selectors import source_of
from headlight.outputs.maps.token_units import Places
from headlight.runtime import ItemResult
from headlight.runtime.values import Architecture, Floats

ARCHITECTURE = Architecture(
    positions="rope", layers=2, heads=3, dim=36, pooled_dim=36, vocab_size=90
)
N = 6


def some_scores(seed: int = 0) -> Floats:
    """Return [2, 3, N, N], with one query that sees nothing, and one that sees two keys."""
    scores = np.random.default_rng(seed).normal(size=(2, 3, N, N)).astype(np.float32) * 3
    scores[:, :, 1] = -np.inf
    scores[:, :, 2, 2:] = -np.inf
    return scores


def weights_of(scores: Floats) -> Floats:
    """Return the softmax, row by row."""
    found = np.zeros_like(scores)
    for at in np.ndindex(scores.shape[:-1]):
        if np.isfinite(scores[at]).any():
            powers = np.exp(scores[at].astype(np.float64))
            found[at] = powers / powers.sum()
    return found


def right(name: str, scores: Floats) -> ItemResult:
    """Return the result of an engine without rounding, written out."""
    maps = weights_of(scores)
    if name == "scores":
        return ItemResult(attention=scores)
    if name == "head_mean":
        return ItemResult(attention=(maps[:, 0] + maps[:, 2]) / 2)
    if name == "pooling_weights":
        # A sum of arrays, not 0.
        return ItemResult(attention=sum((at + 1) * maps[:, :, at] for at in range(N)) / 21)  # type: ignore[arg-type]
    keys = np.argsort(-maps, axis=-1, kind="stable")[..., :TOP]
    return ItemResult(
        attention=np.take_along_axis(maps, keys, axis=-1),
        attention_indices=keys.astype(np.uint16),
    )


def attention(result: ItemResult) -> NDArray[Any]:
    assert result.attention is not None
    return result.attention


@pytest.mark.parametrize("name", FORMS)
def test_the_measured_error_of_a_form_is_its_actual_error(name: str) -> None:
    scores = some_scores()
    result, maps = right(name, scores), weights_of(scores)
    assert form_error(name, result, maps) < 1e-6
    if name != "scores":
        assert form_error(
            name, ItemResult(result, attention=attention(result) + 0.25), maps
        ) == pytest.approx(0.25, abs=0.1)
    broken = attention(result).copy()
    broken[-1, 0, 0] = np.nan
    assert form_error(name, ItemResult(result, attention=broken), maps) == np.inf
    other = right(name, some_scores(1))
    assert form_error(name, other, maps) > 1e-2


def test_scores_are_compared_by_their_softmax() -> None:
    scores = some_scores()
    more = np.arange(N, dtype=np.float32)[:, None]  # the same for all keys of a query
    assert form_error("scores", ItemResult(attention=scores + more), weights_of(scores)) < 1e-6
    assert (
        form_error("scores", ItemResult(attention=scores * np.float32(1.1)), weights_of(scores))
        > 1e-3
    )
    seen = np.where(np.isfinite(scores), scores, 0)
    assert form_error("scores", ItemResult(attention=seen), weights_of(scores)) > 1e-2, (
        "of what no query sees"
    )


def test_equal_weights_may_be_in_any_order_without_repeats() -> None:
    maps = np.full((1, 1, 1, N), 1 / N, dtype=np.float32)

    def error(*keys: int) -> float:
        entries = np.full((1, 1, 1, TOP), 1 / N, dtype=np.float32)
        return form_error(
            "top_k",
            ItemResult(attention=entries, attention_indices=np.array([[[keys]]], dtype=np.uint16)),
            maps,
        )

    assert error(0, 1, 2) == error(5, 0, 3) < 1e-7
    assert error(0, 1, 1) == error(0, 1, N) == np.inf


def test_the_forms_cover_every_output_of_the_graph() -> None:
    """Whole maps are compared with every output."""
    sources = {name: source_of(form(name, ARCHITECTURE), Places(N)) for name in FORMS}
    assert sorted(sources.values()) == ["mixed", "rows", "scores", "top"]
