"""A list over one stream whose requests in flight are more than the queue has room for,
by the client as it is shipped.
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
    # Bulk may have 7 of the 8 requests that a stream may.
    async with (
        serve(max_request_tokens=100, max_queue_tokens=800, batch_tokens=100) as service,
        AsyncClient(service.target) as client,
    ):
        service.engine.gate.clear()
        running = asyncio.create_task(client.encode_tokens(inputs, priority="bulk"))
        await until(
            lambda: bool(
                service.sample("headlight_rejected_total", model="fake", reason="queue_tokens")
            )
        )
        service.engine.gate.set()
        found = await running
    assert [rows.shape for rows in found] == [(100, 4)] * 20
    computed = sorted(int(item.ids[0]) for batch in service.engine.batches for item in batch)
    assert computed == list(range(1, 21)), "each once"
