from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import numpy as np
import pytest

from headlight.errors import DeadlineExceeded, EngineError, Unavailable
from headlight.runtime.values import EncodeItem
from service.admission import Admission
from service.batcher import FAILURES_BEFORE_PROBE, Answer, Batcher, BatchReport, Engine, EngineLost
from service.lanes import Budget, LaneKey
from tests.service.fakes import FakeEngine, item, result


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Setup:
    """A batcher over a fake engine, with its task running."""

    def __init__(self, streams: int = 1, tokens: int = 64) -> None:
        self.engine, self.clock, self.reports = FakeEngine(), Clock(), list[BatchReport]()
        self.admission = Admission(10**6)
        budgets = {LaneKey("m", "embed"): Budget(tokens), LaneKey("m", "attend"): Budget(tokens, 10**4)}
        self.batcher = Batcher(
            {"m": Engine(self.engine.run, self.engine.probe)},
            budgets,
            streams=streams,
            observe=self.reports.append,
            clock=self.clock,
        )
        self.task = asyncio.create_task(self.batcher.run())

    async def submit(self, *items: EncodeItem, deadline: float = math.inf) -> Answer:
        with self.admission.admit(sum(len(each.ids) for each in items)) as permit:
            return await self.batcher.submit(permit, "m", items, deadline)

    async def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert await asyncio.to_thread(self.engine.started.acquire, True, 30)


@contextlib.asynccontextmanager
async def running(streams: int = 1, tokens: int = 64) -> AsyncIterator[Setup]:
    setup = Setup(streams, tokens)
    try:
        yield setup
    finally:
        setup.engine.gate.set()
        setup.task.cancel()
        await asyncio.wait([setup.task])


def lengths(engine: FakeEngine) -> list[list[int]]:
    return [[len(each.ids) for each in batch] for batch in engine.batches]


async def test_results_come_back_in_the_order_of_the_items() -> None:
    async with running(tokens=8) as setup:
        items = [item(length, first=length) for length in (5, 1, 8, 2, 7)]
        answer = await setup.submit(*items)
    for got, each in zip(answer.results, items, strict=True):
        np.testing.assert_array_equal(got.pooled, result(each).pooled)
    assert sum(map(len, setup.engine.batches)) == 5
    assert len(setup.engine.batches) > 1
    assert setup.admission.held_tokens == 0


async def test_a_lone_item_does_not_wait_and_those_behind_it_share_a_batch() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        first = asyncio.create_task(setup.submit(item(4)))
        await setup.started()
        rest = [asyncio.create_task(setup.submit(item(4))) for _ in range(3)]
        await asyncio.sleep(0)
        setup.engine.gate.set()
        await asyncio.gather(first, *rest)
    assert lengths(setup.engine) == [[4], [4, 4, 4]]


async def test_as_many_batches_at_once_as_there_are_streams() -> None:
    async with running(streams=2, tokens=4) as setup:
        setup.engine.gate.clear()
        tasks = [asyncio.create_task(setup.submit(item(4))) for _ in range(3)]
        await setup.started()
        await setup.started()
        assert len(setup.engine.batches) == 2
        setup.engine.gate.set()
        await asyncio.gather(*tasks)
        assert len(setup.engine.batches) == 3


async def test_roles_never_share_a_batch() -> None:
    async with running() as setup:
        await asyncio.gather(setup.submit(item(4)), setup.submit(item(4, attention=(0,))))
    assert all(len({each.selection.role for each in batch}) == 1 for batch in setup.engine.batches)


async def test_a_failing_batch_fails_its_groups_and_no_others() -> None:
    async with running() as setup:
        setup.engine.poison = 66
        setup.engine.gate.clear()
        victims = [asyncio.create_task(setup.submit(each)) for each in (item(4, first=66), item(4))]
        await setup.started()
        neighbour = asyncio.create_task(setup.submit(item(4)))
        setup.engine.gate.set()
        for victim in victims:
            with pytest.raises(EngineError):
                await victim
        assert len((await neighbour).results) == 1


async def test_what_is_left_of_a_failed_group_is_not_run() -> None:
    async with running(tokens=4) as setup:
        setup.engine.fail()
        with pytest.raises(EngineError):
            await setup.submit(*[item(4) for _ in range(20)])
        setup.engine.broken = None
        await setup.submit(item(3))
    assert sum(map(len, setup.engine.batches)) < 20


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
        assert setup.admission.held_tokens == 4
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


async def test_times_and_reports() -> None:
    async with running(tokens=12) as setup:
        setup.engine.gate.clear()
        first = asyncio.create_task(setup.submit(item(1)))
        await setup.started()
        second = asyncio.create_task(setup.submit(item(4), item(2)))
        await asyncio.sleep(0)
        setup.clock.now += 3
        setup.engine.gate.set()
        assert (await first).infer_ns == 3_000_000_000
        answer = await second
        assert (answer.queue_ns, answer.infer_ns) == (3_000_000_000, 0)
    assert setup.reports[1] == BatchReport(LaneKey("m", "embed"), 2, 6, 8, 0.0)


async def failing(setup: Setup, times: int) -> None:
    setup.engine.fail()
    for _ in range(times):
        with pytest.raises(EngineError):
            await setup.submit(item(1))


async def test_repeated_failures_are_probed_and_forgiven_where_the_probe_passes() -> None:
    async with running() as setup:
        await failing(setup, FAILURES_BEFORE_PROBE)
        setup.engine.broken = None
        await setup.submit(item(1))
        assert setup.engine.probes == 1
        assert not setup.task.done()


async def test_an_engine_that_fails_its_probe_ends_the_batcher_and_all_who_wait() -> None:
    async with running() as setup:
        setup.engine.probe_fails = True
        await failing(setup, FAILURES_BEFORE_PROBE)
        await asyncio.wait([setup.task])
        error = setup.task.exception()
        assert isinstance(error, ExceptionGroup)
        assert error.subgroup(EngineLost) is not None
        with pytest.raises(Unavailable):
            await setup.submit(item(1))


async def test_the_end_of_the_batcher_is_told_to_those_in_the_queue() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        first, second = (asyncio.create_task(setup.submit(item(1))) for _ in range(2))
        await setup.started()
        setup.task.cancel()
        for task in (first, second):
            with pytest.raises(Unavailable):
                await task


async def test_a_permit_that_was_given_back_submits_nothing() -> None:
    async with running() as setup:
        with setup.admission.admit(1) as permit:
            pass
        with pytest.raises(RuntimeError, match="bug"):
            await setup.batcher.submit(permit, "m", [item(1)])
