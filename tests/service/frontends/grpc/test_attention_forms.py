"""Reduced forms of attention over a real socket, in the chunks of a long text."""

from __future__ import annotations

import numpy as np
import pytest

from headlight import AsyncClient, AttentionSpec
from headlight.outputs.maps.resolved_spec import resolve_attention
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.spec import Reduction
from tests.service.conftest import Serve
from tests.service.fakes import ARCHITECTURE, FakeRuntime, result

IDS = [3, 1, 4, 1, 5, 9]
PAIRS = ((0, 1), (2, 0), (2, 1))
# Their scales have one number per head, pair or layer, or one in all.
SCALED: list[tuple[tuple[Reduction, ...], tuple[tuple[int, int], ...]]] = [
    ((), ()),
    (("layer_mean",), ()),
    (("head_mean",), ()),
    (("layer_mean", "head_mean"), ()),
    ((), PAIRS),
]


@pytest.mark.parametrize(("rows", "pooling"), [("pooling_weights", "mean"), ("pooled_row", "cls")])
async def test_scales_of_reduced_queries_arrive_in_chunks(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, rows: Reduction, pooling: str
) -> None:
    monkeypatch.setattr("headlight_service.frontends.contract.answer_forms.CHUNK_BYTES", 8)
    async with (
        serve(FakeRuntime(pooling=pooling)) as service,
        AsyncClient(service.target) as client,
    ):
        for others, pairs in SCALED:
            spec = AttentionSpec.of(reduce=[*others, rows], pairs=pairs, dtype="uint8")
            [found] = await client.attention([IDS], spec)
            choice = resolve_attention(spec, ARCHITECTURE, pooling)
            expected = result(EncodeItem(np.array(IDS), Selection(pooled=False, attention=choice)))
            np.testing.assert_array_equal(found.values, expected.attention)
            np.testing.assert_array_equal(found.scales, expected.attention_scales)
