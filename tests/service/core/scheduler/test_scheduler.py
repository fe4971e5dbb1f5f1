from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import threading
import weakref
from typing import Any, cast

import numpy as np
import pytest

from headlight.errors import DeadlineExceeded, DeviceFull, EngineError, Unavailable
from headlight.outputs.maps.resolved_spec import whole
from headlight.spec import Priority
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.scheduler.batch_policy import BULK_TURN
from headlight_service.core.scheduler.engine_health import FAILURES_BEFORE_PROBE, EngineLost
from headlight_service.core.scheduler.lanes import LaneKey
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.core.scheduler.running_batch import BatchReport
from tests.service.batching import Setup, lengths, running
from tests.service.calls import until
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


async def test_a_single_item_does_not_wait_and_later_ones_share_a_batch(setup: Setup) -> None:
    first = await setup.hold(item(4))
    rest = [asyncio.create_task(setup.submit(item(4))) for _ in range(3)]
    await asyncio.sleep(0)
    setup.engine.gate.set()
    await asyncio.gather(first, *rest)
    assert lengths(setup.engine) == [[4], [4, 4, 4]]


async def test_roles_never_share_a_batch(setup: Setup) -> None:
    await asyncio.gather(setup.submit(item(4)), setup.submit(item(4, attention=whole((0,), 2))))
    assert all(len({each.selection.role for each in batch}) == 1 for batch in setup.engine.batches)


async def test_a_failing_batch_fails_only_its_own_requests(setup: Setup) -> None:
    setup.engine.poison = 66
    first = await setup.hold(item(64))
    victims = [asyncio.create_task(setup.submit(each)) for each in (item(32, first=66), item(32))]
    await asyncio.sleep(0)
    neighbour = asyncio.create_task(setup.submit(item(4)))
    setup.engine.gate.set()
    for victim in victims:
        with pytest.raises(EngineError):
            await victim
    assert len((await neighbour).results) == 1
    assert len((await first).results) == 1
    assert lengths(setup.engine) == [[64], [32, 32], [4]]


async def test_remaining_items_of_a_failed_request_are_not_run(narrow: Setup) -> None:
    narrow.engine.fail()
    with pytest.raises(EngineError):
        await narrow.submit(*[item(4) for _ in range(20)])
    narrow.engine.broken = None
    await narrow.submit(item(3))
    assert sum(map(len, narrow.engine.batches)) < 20


async def test_the_wait_ends_with_the_first_batch_and_the_work_with_the_last() -> None:
    async with running(tokens=4) as setup:
        asking = await setup.hold(item(4), item(3))
        setup.clock.now += 3
        setup.engine.gate.set()
        answer = await asking
    assert len(setup.reports) == 2
    assert (answer.queue_ns, answer.infer_ns) == (0, 3_000_000_000)


async def test_results_are_released_once_delivered(setup: Setup) -> None:
    first = await setup.hold(item(64))
    asking = [asyncio.create_task(setup.submit(item(length))) for length in (1, 4, 2)]
    await asyncio.sleep(0)
    setup.engine.gate.set()
    await first
    arrays = [weakref.ref((await each).results[0].pooled) for each in asking]
    assert [len(batch) for batch in setup.engine.batches] == [1, 3]
    del asking
    await all_dead(arrays)


@pytest.mark.parametrize(("how", "value"), [("poison", 9), ("overflows", 9), ("most_tokens", 4)])
async def test_a_failed_batch_is_released_without_the_garbage_collector(
    setup: Setup, how: str, value: int
) -> None:
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
    async with asyncio.timeout(30):  # the engine's thread may release it a moment later
        while any(array() is not None for array in arrays):
            await asyncio.sleep(0.001)


async def test_times_are_reported() -> None:
    async with running(tokens=12) as setup:
        first = await setup.hold(item(1))
        second = asyncio.create_task(setup.submit(item(4), item(2)))
        await asyncio.sleep(0)
        setup.clock.now += 3
        setup.engine.gate.set()
        assert (await first).infer_ns == 3_000_000_000
        answer = await second
        assert (answer.queue_ns, answer.infer_ns) == (3_000_000_000, 0)
    assert setup.reports[1] == BatchReport(
        LaneKey("m", "embed"), "interactive", 2, 6, 8, 0.0, wide=False
    )


async def failing(setup: Setup, times: int) -> None:
    setup.engine.fail()
    for _ in range(times):
        with pytest.raises(EngineError):
            await setup.submit(item(1))


async def test_repeated_failures_trigger_a_probe_and_are_reset_if_it_passes(setup: Setup) -> None:
    await failing(setup, FAILURES_BEFORE_PROBE)
    setup.engine.broken = None
    await setup.submit(item(1))
    assert setup.engine.probes == 1
    assert setup.lost == []


async def test_a_failed_probe_ends_the_scheduler_and_fails_waiting_requests(setup: Setup) -> None:
    setup.engine.probe_fails = True
    await failing(setup, FAILURES_BEFORE_PROBE - 1)
    setup.engine.gate.clear()
    setup.engine.fail()
    last = asyncio.create_task(setup.submit(item(1)))
    await until(lambda: len(setup.engine.batches) == FAILURES_BEFORE_PROBE)
    behind = asyncio.create_task(setup.submit(item(1)))
    await asyncio.sleep(0)  # it is submitted
    setup.engine.gate.set()
    with pytest.raises(EngineError):
        await last
    with pytest.raises(Unavailable):
        await behind
    await until(lambda: bool(setup.lost))
    [error] = setup.lost
    assert isinstance(error, EngineLost)
    assert "the engine of m does not recover" in error.message
    with pytest.raises(Unavailable):
        await setup.submit(item(1))
    assert setup.held == (0, 0)


async def test_an_ended_scheduler_fails_queued_requests_and_accepts_none(setup: Setup) -> None:
    setup.engine.gate.clear()
    first, second = (asyncio.create_task(setup.submit(item(1))) for _ in range(2))
    await setup.started()
    setup.scheduler.close()
    for task in (first, second):
        with pytest.raises(Unavailable):
            await task
    assert setup.lost == []
    request = Submitted(1)
    with pytest.raises(Unavailable, match="try another, or this one later"):
        setup.scheduler.submit(request.pending)
    assert request.answers == []


class Submitted:
    """Request in a scheduler, submitted by any thread, and its callbacks."""

    def __init__(
        self, *lengths: int, deadline: float = math.inf, priority: Priority = "interactive"
    ) -> None:
        self.answers: list[Computed | Exception] = []
        self.told = threading.Event()
        self.computing: list[int] = []
        items = [item(length) for length in lengths]
        budget = cast(RequestBudget, self)  # it only counts
        self.pending = PendingRequest("m", items, deadline, priority, budget, self._tell)

    def by(self, setup: Setup, *, may_compute: bool = False) -> Submitted:
        setup.scheduler.submit(self.pending, may_compute=may_compute)
        return self

    async def answered(self) -> None:
        assert await asyncio.to_thread(self.told.wait, 30)

    def began(self, tokens: int) -> None:
        self.computing.append(tokens)

    def ended(self, tokens: int) -> None:
        self.computing.append(-tokens)

    def _tell(self, answer: Computed | Exception) -> None:
        self.answers.append(answer)
        self.told.set()


async def test_the_submitting_thread_computes_if_allowed_and_a_slot_is_idle(narrow: Setup) -> None:
    threads: list[str] = []
    narrow.engine.takes = lambda tokens: threads.append(threading.current_thread().name)
    own = threading.current_thread().name
    first = Submitted(4).by(narrow, may_compute=True)
    assert (threads, len(first.answers)) == ([own], 1), "it is answered when that returns"
    second = Submitted(4).by(narrow)
    await second.answered()
    bulk = Submitted(4, priority="bulk").by(narrow, may_compute=True)
    await bulk.answered()
    assert [name.partition("_")[0] for name in threads[1:]] == ["engine", "bulk"]
    assert first.computing == second.computing == bulk.computing == [4, -4]


async def test_the_submitting_thread_computes_only_the_first_batch(narrow: Setup) -> None:
    threads: list[str] = []
    narrow.engine.takes = lambda tokens: threads.append(threading.current_thread().name)
    request = Submitted(4, 4, 4).by(narrow, may_compute=True)
    await request.answered()
    assert threads == [threading.current_thread().name, "engine_0", "engine_0"]


async def test_the_rest_of_a_request_can_expire_while_its_thread_computes(narrow: Setup) -> None:
    narrow.engine.gate.clear()
    request = Submitted(4, 4, deadline=narrow.clock() + 0.05)
    computing = asyncio.create_task(
        asyncio.to_thread(narrow.scheduler.submit, request.pending, may_compute=True)
    )
    await narrow.started()
    narrow.scheduler.expire(request.pending)
    await request.answered()
    assert not computing.done()
    [error] = request.answers
    assert isinstance(error, DeadlineExceeded)
    narrow.engine.gate.set()
    await computing
    assert len(narrow.engine.batches) == 1


async def test_interactive_does_not_wait_for_a_slow_bulk_thread(narrow: Setup) -> None:
    may_go_on = threading.Event()
    narrow.scheduler._threads["bulk"].put(lambda: assert_set(may_go_on))
    narrow.engine.gate.clear()
    first, bulk = Submitted(4), Submitted(4, priority="bulk")
    narrow.scheduler.submit(first.pending)
    await narrow.started()
    narrow.scheduler.submit(bulk.pending)
    others = [Submitted(4) for _ in range(2 * BULK_TURN)]
    for each in others:
        narrow.scheduler.submit(each.pending)
    narrow.engine.gate.set()
    for each in others:
        await each.answered()
    assert not bulk.answers
    may_go_on.set()
    await bulk.answered()


def assert_set(event: threading.Event) -> None:
    assert event.wait(30)


async def test_the_submitting_thread_does_not_wait_for_a_slot(narrow: Setup) -> None:
    narrow.engine.gate.clear()
    first, second = Submitted(4), Submitted(4)
    narrow.scheduler.submit(first.pending)
    await narrow.started()
    narrow.scheduler.submit(second.pending, may_compute=True)
    assert (first.answers, second.answers) == ([], [])
    narrow.engine.gate.set()
    for each in (first, second):
        await each.answered()


async def test_a_withdrawn_request_is_not_queued_and_gets_no_callback(setup: Setup) -> None:
    request = Submitted(4)
    assert not setup.scheduler.withdraw(request.pending), "it does not wait"
    setup.scheduler.submit(request.pending)
    await setup.submit(item(3))
    assert lengths(setup.engine) == [[3]]
    assert request.answers == []
    assert setup.scheduler.heartbeat.stalled_seconds == 0


async def test_results_of_a_request_withdrawn_during_computation_are_discarded(
    narrow: Setup,
) -> None:
    narrow.engine.gate.clear()
    computed, waits = Submitted(4), Submitted(3)
    narrow.scheduler.submit(computed.pending)
    await narrow.started()
    narrow.scheduler.submit(waits.pending)
    assert narrow.scheduler.withdraw(waits.pending)
    assert not narrow.scheduler.withdraw(computed.pending)
    assert computed.computing == [4]
    narrow.engine.gate.set()
    await narrow.submit(item(2))
    assert (computed.computing, waits.computing) == ([4, -4], [])
    assert lengths(narrow.engine) == [[4], [2]]
    assert (computed.answers, waits.answers) == ([], [])
    assert narrow.scheduler.heartbeat.stalled_seconds == 0


async def test_a_deadline_ends_queued_items_and_not_running_ones(narrow: Setup) -> None:
    narrow.engine.gate.clear()
    soon = narrow.clock.now + 0.05
    computed, waits = Submitted(4, deadline=soon), Submitted(4, 4, deadline=soon)
    narrow.scheduler.submit(computed.pending)
    await narrow.started()
    narrow.scheduler.submit(waits.pending)
    for each in (computed, waits):
        narrow.scheduler.expire(each.pending)
    assert waits.told.is_set(), "though no batch ends meanwhile"
    [error] = waits.answers
    assert isinstance(error, DeadlineExceeded)
    assert "inputs that had not started are discarded" in error.message
    assert computed.answers == []
    narrow.engine.gate.set()
    await computed.answered()
    assert isinstance(computed.answers[0], Computed)
    assert lengths(narrow.engine) == [[4]]


async def test_closing_ends_the_threads_of_the_scheduler() -> None:
    before = set(threading.enumerate())
    async with running(slots=2, tokens=1) as setup:
        await setup.submit(*[item(1)] * 9, deadline=setup.clock.now + 1e6)
        own = set(threading.enumerate()) - before
        assert len(own) >= 4, "two for each priority"
    for thread in own:
        if not thread.name.startswith("asyncio"):
            await asyncio.to_thread(thread.join, 30)
            assert not thread.is_alive(), thread.name
