"""Callers of threads who leave: while they wait for one, and while one works for them."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.wire.priority import PRIORITIES
from headlight_service.core.scheduler.engine_pool import Engine, Engines
from headlight_service.core.worker_threads import COMPUTING, COMPUTING_BULK, Threads, WorkerThreads


class Payload:
    """What a caller wants to have worked on, and what becomes of it."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.told = threading.Event(), threading.Event(), False

    def work(self, left: threading.Event) -> str:
        self.begun.set()
        assert self.may_end.wait(30)
        self.told = left.is_set()
        return "done"


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    made = Threads(1, "test")
    yield made
    made.close()


async def test_who_leaves_while_waiting_takes_the_payload_along_at_once(threads: Threads) -> None:
    first = Payload()
    running = asyncio.create_task(threads.run(first.work))
    await asyncio.to_thread(first.begun.wait, 30)
    waiting = Payload()
    held = weakref.ref(waiting)
    task = asyncio.create_task(threads.run(waiting.work))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    del waiting, task
    assert held() is None
    first.may_end.set()
    assert await running == "done"
    assert not first.told


async def test_who_leaves_during_the_work_is_let_go_when_the_thread_is_and_the_work_learns_of_it(
    threads: Threads,
) -> None:
    first, second = Payload(), Payload()
    gone = asyncio.create_task(threads.run(first.work))
    await asyncio.to_thread(first.begun.wait, 30)
    stays = asyncio.create_task(threads.run(second.work))
    gone.cancel()
    await asyncio.sleep(0)
    assert not gone.done()
    assert not second.begun.is_set()
    first.may_end.set()
    second.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert first.told
    assert await stays == "done"


async def test_a_failure_reaches_the_caller(threads: Threads) -> None:
    def fail(left: threading.Event) -> None:
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        await threads.run(fail)


async def test_two_work_at_a_time() -> None:
    workers, payloads = WorkerThreads(2, "test"), [Payload() for _ in range(3)]
    running = [workers.start(functools.partial(each.work, threading.Event())) for each in payloads]
    for each in payloads[:2]:
        assert await asyncio.to_thread(each.begun.wait, 30)
    assert not payloads[2].begun.is_set()
    for each in payloads:
        each.may_end.set()
    assert await asyncio.gather(*running) == ["done"] * 3
    workers.close()


async def test_what_was_worked_on_is_let_go_at_once() -> None:
    workers, payload = WorkerThreads(1, "test"), Payload()
    payload.may_end.set()
    held = weakref.ref(payload)
    work = functools.partial(payload.work, threading.Event())
    assert await workers.start(work) == "done"
    del payload, work
    async with asyncio.timeout(30):  # the thread may still be about to
        while held() is not None:
            await asyncio.sleep(0.001)
    workers.close()


async def test_threads_that_compute_stand_behind_all_others() -> None:
    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def priorities() -> tuple[int, int]:
        """Of the thread, and of one that it starts, as the libraries do."""
        started = ThreadPoolExecutor(1).submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), started.result()

    for behind in (0, COMPUTING, COMPUTING_BULK):
        workers = WorkerThreads(1, "test", behind=behind)
        assert await workers.start(priorities) == (min(here + behind, 19),) * 2
        workers.close()
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == here


async def test_bulk_is_computed_behind_what_is_waited_for() -> None:
    here, seen = os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), list[int]()

    def run(items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return [ItemResult()] * len(items)

    engines = Engines({"m": Engine(run, lambda: None)}, 1)
    items = [EncodeItem(np.zeros(1, dtype=np.int64), Selection())]
    for priority in PRIORITIES:
        assert await engines.run("m", items, priority, wide=False) == [ItemResult()]
    engines.close()
    expected = {"interactive": COMPUTING, "bulk": COMPUTING_BULK}
    assert seen == [min(here + expected[priority], 19) for priority in PRIORITIES]


async def test_what_is_waited_for_is_worked_on_beside_a_flood_of_bulk() -> None:
    threads = Threads(2, "test")
    flood, wanted = [Payload() for _ in range(4)], Payload()
    running = [asyncio.create_task(threads.run(each.work, "bulk")) for each in flood]
    await asyncio.to_thread(flood[0].begun.wait, 30)
    wanted.may_end.set()
    assert await asyncio.wait_for(threads.run(wanted.work), 30) == "done"
    assert not flood[1].begun.is_set()
    for each in flood:
        each.may_end.set()
    assert await asyncio.gather(*running) == ["done"] * 4
    threads.close()
