"""Selectors of batches that request no attention."""

from __future__ import annotations

import numpy as np
import pytest

from headlight.outputs.maps.graph_selectors import BatchAttention
from headlight.runtime.encode_items import EncodeItem, Selection

LAYERS, HEADS = 2, 3


@pytest.mark.parametrize(("batch", "longest"), [(1, 4), (1, 5), (3, 4)])
def test_selectors_without_attention_fit_the_batch_and_select_nothing(
    batch: int, longest: int
) -> None:
    items = [EncodeItem(np.arange(longest), Selection())] * batch
    attention = BatchAttention(items, LAYERS, HEADS, longest, False)
    assert attention.names == []
    shapes = {name: array.shape for name, array in attention.feeds().items()}
    expected: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        expected |= {
            f"attention_{layer}_heads": (0,),
            f"scores_{layer}_heads": (0,),
            f"mix_{layer}": (batch, 0, HEADS),
            f"combine_{layer}": (batch, 1, 0, longest),
            f"top_{layer}": (1,),
        }
    assert shapes == expected
    assert all(not attention.feeds()[f"top_{layer}"].any() for layer in range(LAYERS))
