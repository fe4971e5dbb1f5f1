"""An internal failure of the scheduler.

It ends and fails all requests, rather than lose a slot unnoticed.
"""

from __future__ import annotations

import asyncio

import pytest

from headlight.errors import Unavailable
from headlight_service.core.scheduler.running_batch import BatchReport
from tests.service.batching import running
from tests.service.calls import until
from tests.service.fakes import item


async def test_a_failing_scheduler_ends_and_fails_all_waiting_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(report: BatchReport) -> None:
        raise ValueError("a bug")

    async with running() as setup:
        served = setup.scheduler._engines["m"]
        served.engine = served.engine._replace(observe=fail)
        first = await setup.hold(item(4))
        waiting = asyncio.create_task(setup.submit(item(5)))
        await asyncio.sleep(0)
        setup.engine.gate.set()
        with pytest.raises(Unavailable):
            await waiting
        await until(lambda: bool(setup.lost))
        assert [str(each) for each in setup.lost] == ["the scheduler failed"]
        with pytest.raises(Unavailable):
            await setup.submit(item(6))
        assert "call_failed" in [getattr(record, "event", "") for record in caplog.records]
        first.cancel()
        await asyncio.wait([first])
