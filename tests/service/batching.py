"""A scheduler over a fake engine, whose clock and batches the test controls."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headlight.description import Limits
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.engine.batches import AS_LONG, Rounding
from headlight.runtime.values import GraphRole
from headlight.spec import Priority
from headlight_service.app.executor import fit
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.scheduler.batch_policy import ExecutionSlots
from headlight_service.core.scheduler.engine_health import EngineFunctions, EngineLost
from headlight_service.core.scheduler.lanes import BatchLimit
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.core.scheduler.running_batch import BatchReport
from headlight_service.core.scheduler.scheduler import Scheduler
from tests.service.fakes import FakeEngine

BYTES_PER_TOKEN = 10


class Slots(ExecutionSlots):
    """Fake slots, with a number of idle ones for each priority."""

    def __init__(
        self, interactive: int, bulk: int | None = None, *, hold_bulk: bool = False
    ) -> None:
        super().__init__(interactive)
        self._idle = {"interactive": interactive, "bulk": interactive if bulk is None else bulk}
        self.hold_bulk = hold_bulk

    def idle(self, priority: Priority) -> int:
        return self._idle[priority]


class Clock:
    """Clock that advances when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Setup:
    """Scheduler over a fake engine.

    Attributes:
        lost: errors of an engine that does not recover.
        pending: the requests under way, in the order in which they came.
        left: the stages at which callers disconnected.
    """

    def __init__(
        self,
        slots: int = 1,
        tokens: int = 64,
        rounding: Rounding = AS_LONG,
        bulk_seconds: float = math.inf,
        wide_roles: frozenset[GraphRole] = frozenset(),
    ) -> None:
        self.engine, self.clock, self.reports = FakeEngine(), Clock(), list[BatchReport]()
        self.worked = Clock()  # of the processors
        self.left: list[str] = []
        self.pending: list[PendingRequest] = []
        self.lost: list[EngineLost] = []
        self.scheduler = Scheduler(
            slots=slots, bulk_seconds=bulk_seconds, on_lost=self.lost.append, clock=self.clock
        )
        functions = EngineFunctions(
            self.engine.run,
            self.engine.probe,
            wide_roles,
            rounding,
            self.reports.append,
            worked=self.worked,
            name="m",
        )
        limits: dict[GraphRole, BatchLimit] = {
            "embed": BatchLimit(tokens),
            "attend": BatchLimit(tokens, 10**4),
        }
        self.scheduler.add("m", functions, limits)
        self.estimate = WaitEstimate(slots)
        self.admission = Admission(
            max_tokens=10**6,
            max_request_bytes=0,
            max_output_bytes=10**9,
            estimates=[self.estimate],
            lock=self.scheduler.lock,
        )

    async def submit(
        self, *items: EncodeItem, deadline: float = math.inf, priority: Priority = "interactive"
    ) -> Computed:
        """Submit as the pipeline does; each token has BYTES_PER_TOKEN of results."""
        tokens = sum(len(each.ids) for each in items)
        budget = RequestBudget(self.admission, self.estimate, priority)
        budget.take_answer(tokens * BYTES_PER_TOKEN)
        budget.take_tokens(tokens, math.inf)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Computed] = loop.create_future()

        def settle(outcome: Computed | Exception) -> None:
            if ended.cancelled():
                return
            if isinstance(outcome, Exception):
                ended.set_exception(outcome)
            else:
                ended.set_result(outcome)

        def then(outcome: Computed | Exception) -> None:
            if isinstance(outcome, Exception):
                outcome = outcome.with_traceback(None)  # its frames reference the batch
            loop.call_soon_threadsafe(settle, outcome)

        pending = PendingRequest("m", items, deadline, priority, budget, then)
        self.pending.append(pending)
        try:
            self.scheduler.submit(pending)
            return await ended
        except asyncio.CancelledError:
            self.left.append("queue" if self.scheduler.withdraw(pending) else "infer")
            raise
        finally:
            self.pending.remove(pending)
            budget.close()
            del items, pending  # an error would reference this frame

    @property
    def held(self) -> tuple[int, int]:
        """Return the tokens and bytes of results held."""
        return self.admission.tokens.held, self.admission.outputs.held

    async def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert await asyncio.to_thread(self.engine.started.acquire, True, 30)

    async def hold(self, *items: EncodeItem, **options: Any) -> asyncio.Task[Computed]:
        """Submit a request, and hold the engine in its batch until the gate is set."""
        self.engine.gate.clear()
        request = asyncio.create_task(self.submit(*items, **options))
        await self.started()
        return request


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Setup]:
    """Yield a running setup; see Setup."""
    setup = Setup(**options)
    try:
        yield setup
    finally:
        setup.engine.gate.set()
        setup.scheduler.close()


def fitted(config: Config, *told: Limits) -> Admission:
    """Return the admission of a process whose models have these limits."""
    admission = Admission(
        max_tokens=0, max_request_bytes=config.max_queue_bytes, max_output_bytes=0
    )
    fit(admission, config, told)
    return admission


def at_once(work: Callable[[int], None], count: int = 4) -> None:
    """Call a function in several threads, which begin together; it gets the number of each."""
    begin = threading.Barrier(count)

    def run(number: int) -> None:
        begin.wait(30)
        work(number)

    with ThreadPoolExecutor(count) as threads:
        for each in [threads.submit(run, number) for number in range(count)]:
            each.result(timeout=60)


def lengths(engine: FakeEngine) -> list[list[int]]:
    return [[len(each.ids) for each in batch] for batch in engine.batches]
