"""Memory of the service for one large answer: bounded, however often it is requested."""

from __future__ import annotations

import numpy as np
import pytest

from headlight import AsyncClient, AttentionSpec, Client, InvalidInput
from tests.shipped import HEADS, LAYERS
from tests.system.conftest import bundle_of
from tests.system.processes import Service

LARGE, CALLS = 1024, 5  # tokens of 32 maps of 4 MiB: 134 MB
REPEATED, REPEATS = 512, 35  # a leak shows in any size
CHUNK = 1 << 20
IN_FLIGHT = 3 * CHUNK  # pieces; their number varies from call to call


def test_attention_pieces_are_complete_and_held_one_at_a_time(rope: Service) -> None:
    ids, spec = [7 + at % 300 for at in range(600)], AttentionSpec.of(layers=[2, 0])
    with Client(rope.target) as client:
        whole = client.attend(ids, [2, 0])
        seen = np.zeros(whole.weights.shape, dtype=bool)
        for piece in client.attention_pieces(ids, spec):
            heads, rows = (
                slice(piece.heads.start, piece.heads.stop),
                slice(piece.rows.start, piece.rows.stop),
            )
            place = (whole.layers.index(piece.layer), heads, rows)
            assert piece.values.nbytes <= CHUNK
            assert not seen[place].any()
            np.testing.assert_array_equal(piece.values, whole.weights[place])
            seen[place] = True
        [small] = client.attention_pieces("open", AttentionSpec.of(-1))
    assert seen.all()
    assert small.values.shape == (HEADS, 3, 3)


async def test_attention_pieces_are_complete_with_asyncio(rope: Service) -> None:
    async with AsyncClient(rope.target) as client:
        pieces = [
            piece
            async for piece in client.attention_pieces(
                list(range(5, 400)), AttentionSpec.of(reduce="head_mean")
            )
        ]
        with pytest.raises(InvalidInput, match="use `attention`"):
            await anext(client.attention_pieces("a", AttentionSpec.of(top_k=3)))
        with pytest.raises(InvalidInput, match=r"layers\[0\]: is 7"):
            await anext(client.attention_pieces("a", AttentionSpec.of(7)))
    assert sum(piece.values.size for piece in pieces) == LAYERS * 395**2


def test_whole_maps_cost_at_most_two_and_a_half_times_their_size() -> None:
    with Service(bundle_of("docs-rope")) as service, Client(service.target) as client:
        client.encode([[7] * LARGE])
        base, peaks = service.resident_bytes(), []
        for tokens in [REPEATED] * REPEATS + [LARGE] * CALLS:
            item = 4 * LAYERS * HEADS * tokens**2
            service.forget_peak()
            assert client.attend([7 + at % 300 for at in range(tokens)]).weights.nbytes == item
            peaks.append(service.peak_bytes() - base)
            assert peaks[-1] <= 2.5 * item + IN_FLIGHT, peaks
    # A leak would show in every later call: a tenth of a piece a call is found.
    repeated = peaks[:REPEATS]
    assert min(repeated[-10:]) <= max(repeated[:10]) + IN_FLIGHT, peaks
