"""What one item wants of a batch's outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.attention.graph_selectors import Wanted
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.providers.session import Outputs
from headlight.runtime.values import Floats
from headlight.runtime.vectors.vector_forms import shape_rows


def cut_out(
    outputs: Outputs,
    row: int,
    item: EncodeItem,
    pooled: Floats | None,
    wanted: Wanted | None,
    unreduced: NDArray[np.float32] | None,
) -> ItemResult:
    """One item's share of a batch's outputs, without padding, copied so that the batch's memory is let go.

    Args:
        outputs: of the graph.
        row: the item's place in the batch.
        item: what is wanted.
        pooled: its vector, as wanted.
        wanted: where attention or hidden states are.
        unreduced: its attention, where the graph has written that to its place.
    """
    n, selection = len(item.ids), item.selection
    rows = slice(n) if item.rows is None else item.rows
    attention: NDArray[Any] | None = unreduced
    indices = scales = hidden = None
    if unreduced is None and wanted is not None and selection.attention is not None:
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
