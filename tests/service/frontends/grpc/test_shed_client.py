"""A list over one stream with more requests in flight than the queue accepts.

With the shipped client.
"""

from __future__ import annotations

import asyncio

import pytest

from headlight import AsyncClient
from tests.service.calls import until
from tests.service.conftest import Serve


async def test_only_excess_requests_of_a_bulk_stream_are_sent_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headlight_service.core.admission.admission_control.FIRST_RETRY_SECONDS", 0.05
    )
    inputs = [[1 + number] * 100 for number in range(20)]
    # The queue has room for 7 bulk requests; a stream may have 8 in flight.
    async with (
        serve(max_request_tokens=100, max_queue_tokens=800, batch_tokens=100) as service,
        AsyncClient(service.target) as client,
    ):
        service.engine.gate.clear()
        running = asyncio.create_task(client.encode_tokens(inputs, priority="bulk"))
        await until(lambda: bool(service.metric("headlight_rejected_total", reason="queue_tokens")))
        service.engine.gate.set()
        found = await running
    assert [rows.shape for rows in found] == [(100, 4)] * 20
    computed = sorted(int(item.ids[0]) for batch in service.engine.batches for item in batch)
    assert computed == list(range(1, 21)), "each once"
