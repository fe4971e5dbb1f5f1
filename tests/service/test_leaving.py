"""Callers who leave, or whose time runs out, while their items wait or run."""

from __future__ import annotations

import asyncio

import pytest

from headlight.errors import DeadlineExceeded
from tests.service.batching import lengths, running
from tests.service.fakes import item


async def test_cancelled_items_leave_the_queue_and_never_run() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        first = asyncio.create_task(setup.submit(item(1)))
        await setup.started()
        gone = asyncio.create_task(setup.submit(item(2), item(2)))
        stays = asyncio.create_task(setup.submit(item(3)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        assert setup.admission.tokens.held == 4
        assert setup.left == ["queue"]
        setup.engine.gate.set()
        await asyncio.gather(first, stays)
    assert lengths(setup.engine) == [[1], [3]]


async def test_batch_mates_of_a_caller_who_left_are_answered() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        gone, stays = (asyncio.create_task(setup.submit(item(2))) for _ in range(2))
        await setup.started()
        gone.cancel()
        await asyncio.wait([gone])
        assert setup.left == ["infer"]
        setup.engine.gate.set()
        assert len((await stays).results) == 1
    assert lengths(setup.engine) == [[2, 2]]


async def test_what_expired_in_the_queue_is_never_run() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        first = asyncio.create_task(setup.submit(item(1)))
        await setup.started()
        late = asyncio.create_task(setup.submit(item(2), deadline=setup.clock.now + 5))
        in_time = asyncio.create_task(setup.submit(item(3), deadline=setup.clock.now + 50))
        await asyncio.sleep(0)
        setup.clock.now += 10
        setup.engine.gate.set()
        with pytest.raises(DeadlineExceeded):
            await late
        await asyncio.gather(first, in_time)
    assert lengths(setup.engine) == [[1], [3]]


async def test_what_expires_leaves_within_50_ms_though_no_batch_is_taken() -> None:
    """The best of some tries: the machine may be busy with other things."""
    loop, delays = asyncio.get_running_loop(), []
    async with running() as setup:
        setup.engine.gate.clear()
        first = asyncio.create_task(setup.submit(item(1)))
        await setup.started()
        for _ in range(5):
            begun = loop.time()
            with pytest.raises(DeadlineExceeded):
                await setup.submit(item(2), item(2), deadline=setup.clock.now + 0.01)
            delays.append(loop.time() - begun - 0.01)
            assert setup.admission.tokens.held == 1
        setup.engine.gate.set()
        await first
    assert lengths(setup.engine) == [[1]]
    assert min(delays) < 0.05


async def test_what_is_being_computed_at_its_deadline_is_still_answered() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        late = asyncio.create_task(setup.submit(item(1), deadline=setup.clock.now + 0.01))
        await setup.started()
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, passed.set)
        await passed.wait()
        setup.engine.gate.set()
        assert len((await late).results) == 1
