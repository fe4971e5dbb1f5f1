"""Worker threads.

One piece of work each at a time, released when it is done, at a lower priority.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.scheduler.engine_health import EngineFunctions
from headlight_service.core.scheduler.lanes import BatchLimit
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.core.scheduler.scheduler import Scheduler
from headlight_service.core.worker_threads import COMPUTING, COMPUTING_BULK, WorkerThreads
from tests.service.core.test_tokenizer_threads import Payload


def nice() -> int:
    """Return the niceness of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_two_threads_work_at_a_time() -> None:
    workers, payloads = WorkerThreads(2, "test"), [Payload() for _ in range(3)]
    for each in payloads:
        workers.put(each.work)
    for each in payloads[:2]:
        assert each.begun.wait(30)
    assert not payloads[2].begun.is_set()
    for each in payloads:
        each.may_end.set()
    for each in payloads:
        assert each.done.wait(30)
    workers.close()


def test_work_starts_in_submission_order() -> None:
    workers, order = WorkerThreads(1, "test"), queue.SimpleQueue[int]()
    for number in range(9):
        workers.put(lambda number=number: order.put(number))  # type: ignore[misc]
    assert [order.get(timeout=30) for _ in range(9)] == list(range(9))
    workers.close()


async def test_finished_work_is_released_at_once() -> None:
    workers, payload = WorkerThreads(1, "test"), Payload()
    payload.may_end.set()
    held = weakref.ref(payload)
    workers.put(payload.work)
    assert await asyncio.to_thread(payload.done.wait, 30)
    del payload
    async with asyncio.timeout(30):  # the thread may do so a moment later
        while held() is not None:
            await asyncio.sleep(0.001)
    workers.close()


def test_idle_threads_end() -> None:
    before = set(threading.enumerate())
    workers, payload = WorkerThreads(2, "some"), Payload()
    own = set(threading.enumerate()) - before
    assert sorted(thread.name for thread in own) == ["some_0", "some_1"]
    assert all(thread.daemon for thread in own)
    workers.put(payload.work)
    workers.close()
    payload.may_end.set()
    for thread in own:
        thread.join(30)
        assert not thread.is_alive()
    assert payload.done.is_set(), "what was handed over is done"


@pytest.mark.parametrize("behind", [0, COMPUTING, COMPUTING_BULK])
def test_computing_threads_have_a_lower_priority(behind: int) -> None:
    here, told = nice(), queue.SimpleQueue[tuple[int, int]]()

    def priorities() -> None:
        """Return the priority of the thread, and of one that it starts, as the libraries do."""
        with ThreadPoolExecutor(1) as started:
            told.put((nice(), started.submit(nice).result()))

    workers = WorkerThreads(1, "test", behind=behind)
    workers.put(priorities)
    assert told.get(timeout=30) == (min(here + behind, 19),) * 2
    workers.close()
    assert nice() == here


def test_bulk_is_computed_at_a_lower_priority_than_interactive() -> None:
    here, seen = nice(), list[int]()

    def run(items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        seen.append(nice())
        return [ItemResult()] * len(items)

    scheduler = Scheduler()
    admission = Admission(max_tokens=1, max_request_bytes=0, max_output_bytes=0)
    budget = RequestBudget(admission, WaitEstimate(1), "interactive")
    scheduler.add("m", EngineFunctions(run, lambda: None), {"embed": BatchLimit(8)})
    items = [EncodeItem(np.zeros(1, dtype=np.int64), Selection())]
    told = queue.SimpleQueue[Computed | Exception]()

    def ask(
        priority: Priority,
        then: Callable[[Computed | Exception], None],
        *,
        may_compute: bool = False,
    ) -> None:
        pending = PendingRequest("m", items, 1e9, priority, budget, then)
        scheduler.submit(pending, may_compute=may_compute)

    for priority in PRIORITIES:
        ask(priority, told.put)
        answer = told.get(timeout=30)
        assert isinstance(answer, Computed)
        assert answer.results == [ItemResult()]
    ask("interactive", told.put, may_compute=True)
    assert isinstance(told.get(timeout=30), Computed)
    scheduler.close()
    expected = [COMPUTING, COMPUTING_BULK, 0]  # the last on a thread that answers its client
    assert seen == [min(here + steps, 19) for steps in expected]
