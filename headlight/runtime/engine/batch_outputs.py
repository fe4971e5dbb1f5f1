"""Outputs of a batch: whether they are finite, and the share of each item."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.attention.graph_selectors import Wanted
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.providers.session import Outputs
from headlight.runtime.values import Floats
from headlight.runtime.vectors.vector_forms import shape_rows


def all_finite(outputs: Outputs) -> bool:
    """Whether a batch's vectors are finite, padding and all: what is not finite anywhere is not finite in them."""
    pooled = bool(np.isfinite(outputs["pooled"]).all())
    return pooled and ("tokens" not in outputs or bool(np.isfinite(outputs["tokens"]).all()))


def finite_rows(items: Sequence[EncodeItem], outputs: Outputs) -> NDArray[np.bool_]:
    """Of which items they are: bool [B]. Company changes no item's: its padding and what others want do not count."""
    good = np.asarray(np.isfinite(outputs["pooled"]).all(axis=1))
    if "tokens" in outputs:
        finite = np.isfinite(outputs["tokens"]).all(axis=2)
        padding = np.arange(finite.shape[1]) >= np.array([len(item.ids) for item in items])[:, None]
        unwanted = np.array([not item.selection.tokens for item in items])
        good = good & ((finite | padding).all(axis=1) | unwanted)
    return good


def cut_out(
    outputs: Outputs,
    row: int,
    item: EncodeItem,
    pooled: Floats | None,
    wanted: Wanted | None,
) -> ItemResult:
    """One item's share of a batch's outputs, without padding, copied so that the batch's memory is let go.

    Args:
        outputs: of the graph.
        row: the item's place in the batch.
        item: what is wanted.
        pooled: its vector, as wanted.
        wanted: where attention or hidden states are.
    """
    n, selection = len(item.ids), item.selection
    rows = slice(n) if item.rows is None else item.rows
    attention = indices = scales = hidden = None
    if wanted is not None and selection.attention is not None:
        attention, indices, scales = wanted.reduced(row, outputs)
    if (states := selection.hidden) is not None:
        tokens = slice(n) if item.states is None else item.states
        parts = [outputs[f"hidden_{layer}"][row, tokens] for layer in states.layers]
        hidden = np.stack(parts, dtype=states.spec.dtype, casting="same_kind")
    return ItemResult(
        pooled=pooled,
        tokens=shape_rows(outputs["tokens"][row, rows], selection.rows) if selection.tokens else None,
        attention=attention,
        hidden=hidden,
        indices=indices,
        scales=scales,
    )
