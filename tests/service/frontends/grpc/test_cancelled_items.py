"""Callers that disconnect, or whose deadline passes, while their items wait or run."""

from __future__ import annotations

import asyncio

import pytest

from headlight.errors import DeadlineExceeded
from tests.service.batching import Setup, lengths
from tests.service.calls import until
from tests.service.fakes import item


async def test_cancelled_items_leave_the_queue_and_never_run(setup: Setup) -> None:
    first = await setup.hold(item(1))
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


async def test_batch_mates_of_a_disconnected_caller_are_answered(setup: Setup) -> None:
    first = await setup.hold(item(1))
    gone, stays = (asyncio.create_task(setup.submit(item(2))) for _ in range(2))
    await asyncio.sleep(0)
    # So the next batch blocks, too.
    setup.engine.takes = lambda tokens: setup.engine.gate.clear()
    setup.engine.gate.set()
    await first
    await setup.started()
    gone.cancel()
    await asyncio.wait([gone])
    assert setup.left == ["infer"]
    setup.engine.gate.set()
    assert len((await stays).results) == 1
    assert lengths(setup.engine) == [[1], [2, 2]]


async def test_a_cancelled_running_batch_holds_its_permits_until_it_ends(narrow: Setup) -> None:
    """A running engine cannot be stopped: releasing early would admit more than fits."""
    narrow.engine.gate.clear()
    gone = asyncio.create_task(narrow.submit(item(4), item(3), item(2)))  # one runs, two wait
    await narrow.started()
    assert narrow.held == (9, 90)
    gone.cancel()
    await asyncio.wait([gone])
    assert narrow.held == (4, 90), "of the results all, for they came with one permit"
    assert narrow.left == ["queue"]
    neighbour = asyncio.create_task(narrow.submit(item(1)))
    await asyncio.sleep(0)
    assert narrow.held == (5, 100)
    narrow.engine.gate.set()
    await neighbour
    assert narrow.held == (0, 0)
    assert lengths(narrow.engine) == [[4], [1]]


async def test_a_cancelled_batch_that_fails_releases_its_permits(setup: Setup) -> None:
    setup.engine.gate.clear()
    setup.engine.fail()
    gone = asyncio.create_task(setup.submit(item(4)))
    await setup.started()
    gone.cancel()
    await asyncio.wait([gone])
    assert setup.held == (4, 40)
    setup.engine.gate.set()
    await until(lambda: setup.held == (0, 0))


async def test_expired_queue_items_never_run(setup: Setup) -> None:
    first = await setup.hold(item(1))
    late = asyncio.create_task(setup.submit(item(2), deadline=setup.clock.now + 5))
    in_time = asyncio.create_task(setup.submit(item(3), deadline=setup.clock.now + 50))
    await asyncio.sleep(0)
    setup.clock.now += 10
    setup.engine.gate.set()
    with pytest.raises(DeadlineExceeded):
        await late
    await asyncio.gather(first, in_time)
    assert lengths(setup.engine) == [[1], [3]]


async def test_expired_items_leave_the_queue_at_once(setup: Setup) -> None:
    """The engine is busy, and never takes the next batch."""
    first = await setup.hold(item(1))
    for _ in range(5):
        late = asyncio.create_task(setup.submit(item(2), item(2), deadline=setup.clock.now + 0.01))
        await asyncio.sleep(0)
        assert setup.held == (5, 50), "it waits"
        setup.scheduler.expire(setup.pending[-1])
        for _ in range(3):
            await asyncio.sleep(0)
        assert late.done()
        with pytest.raises(DeadlineExceeded):
            await late
        assert setup.held == (1, 10)
    setup.engine.gate.set()
    await first
    assert lengths(setup.engine) == [[1]]


async def test_cancelled_items_leave_the_queue_at_once(setup: Setup) -> None:
    """A thousand wait, the engine is busy and never takes the next batch.

    Cancellation waits for none of that.
    """
    first = await setup.hold(item(1))
    crowd = [asyncio.create_task(setup.submit(item(1 + place % 7))) for place in range(1000)]
    gone = [asyncio.create_task(setup.submit(item(2), item(2))) for _ in range(20)]
    await asyncio.sleep(0)
    before, _ = setup.held
    for task in gone:
        task.cancel()
    turns = 0
    while setup.held[0] > before - 80:
        await asyncio.sleep(0)  # one turn of the event loop
        turns += 1
    assert turns <= 3
    assert setup.left == ["queue"] * 20
    setup.engine.gate.set()
    await asyncio.gather(first, *crowd)
    assert sum(map(len, setup.engine.batches)) == 1001
