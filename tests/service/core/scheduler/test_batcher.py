from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from headlight.errors import DeviceFull, EngineError, Unavailable
from headlight.runtime.attention.resolved_spec import whole
from headlight_service.core.scheduler.batcher import BatchReport
from headlight_service.core.scheduler.engine_pool import FAILURES_BEFORE_PROBE, EngineLost
from headlight_service.core.scheduler.lanes import LaneKey
from tests.service.batching import Setup, lengths, running
from tests.service.fakes import item, result


async def test_results_come_back_in_the_order_of_the_items() -> None:
    async with running(tokens=8) as setup:
        items = [item(length, first=length) for length in (5, 1, 8, 2, 7)]
        answer = await setup.submit(*items)
    for got, each in zip(answer.results, items, strict=True):
        np.testing.assert_array_equal(got.pooled, result(each).pooled)
    assert sum(map(len, setup.engine.batches)) == 5
    assert len(setup.engine.batches) > 1
    assert setup.admission.tokens.held == 0


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
        await asyncio.gather(setup.submit(item(4)), setup.submit(item(4, attention=whole((0,), 2))))
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


async def test_the_first_of_several_batches_ends_the_wait_and_the_last_the_work() -> None:
    async with running(tokens=4) as setup:
        setup.engine.gate.clear()
        asking = asyncio.create_task(setup.submit(item(4), item(3)))
        await setup.started()
        setup.clock.now += 3
        setup.engine.gate.set()
        answer = await asking
    assert len(setup.reports) == 2
    assert (answer.queue_ns, answer.infer_ns) == (0, 3_000_000_000)


async def test_results_are_let_go_when_their_callers_have_them() -> None:
    async with running() as setup:
        asking = [asyncio.create_task(setup.submit(item(length))) for length in (1, 4, 2)]
        arrays = [weakref.ref((await each).results[0].pooled) for each in asking]
        assert [len(batch) for batch in setup.engine.batches] == [3]
        del asking
        await all_dead(arrays)


@pytest.mark.parametrize(("how", "value"), [("poison", 9), ("overflows", 9), ("most_tokens", 4)])
async def test_a_failed_batch_is_let_go_without_the_garbage_collector(how: str, value: int) -> None:
    async with running() as setup:
        setattr(setup.engine, how, value)
        gc.disable()
        try:
            items = [item(4, 9), item(1), item(1)]
            arrays = [weakref.ref(each.ids) for each in items]
            with contextlib.suppress(EngineError, DeviceFull):
                await setup.submit(*items)
            del items
            setup.engine.batches.clear()
            await all_dead(arrays)
        finally:
            gc.enable()


async def all_dead(arrays: list[weakref.ref[Any]]) -> None:
    async with asyncio.timeout(30):  # the engine's thread may still be about to let go
        while any(array() is not None for array in arrays):
            await asyncio.sleep(0.001)


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
    assert setup.reports[1] == BatchReport(LaneKey("m", "embed"), "interactive", 2, 6, 8, 0.0, wide=False)


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
