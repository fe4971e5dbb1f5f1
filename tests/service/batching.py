"""A batcher over a fake engine, whose clock and whose batches are in a test's hands."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any

from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.engine.batches import AS_LONG, Rounding
from headlight.runtime.values import Role
from headlight.wire.priority import Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.scheduler.batcher import Batcher, BatchReport
from headlight_service.core.scheduler.engine_pool import Engine
from headlight_service.core.scheduler.lanes import Budget, LaneKey
from headlight_service.core.scheduler.pending_requests import Answer
from tests.service.fakes import FakeEngine

BYTES_PER_TOKEN = 10


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Setup:
    """A batcher over a fake engine, with its task running."""

    def __init__(
        self,
        streams: int = 1,
        tokens: int = 64,
        rounding: Rounding = AS_LONG,
        bulk_seconds: float = math.inf,
        wide_roles: frozenset[Role] = frozenset(),
    ) -> None:
        self.engine, self.clock, self.reports = FakeEngine(), Clock(), list[BatchReport]()
        self.worked = Clock()  # of the processors
        self.admission = Admission(max_tokens=10**6, max_request_bytes=0, max_output_bytes=10**9)
        self.left: list[str] = []
        budgets = {LaneKey("m", "embed"): Budget(tokens), LaneKey("m", "attend"): Budget(tokens, 10**4)}
        self.batcher = Batcher(
            {"m": Engine(self.engine.run, self.engine.probe, wide_roles)},
            budgets,
            streams=streams,
            rounding=rounding,
            bulk_seconds=bulk_seconds,
            observe=self.reports.append,
            on_cancel=lambda lane, stage: self.left.append(stage),
            clock=self.clock,
            worked=self.worked,
        )
        self.task = asyncio.create_task(self.batcher.run())

    async def submit(
        self, *items: EncodeItem, deadline: float = math.inf, priority: Priority = "interactive"
    ) -> Answer:
        """As ServedModel does it; each token has BYTES_PER_TOKEN of results."""
        tokens = sum(len(each.ids) for each in items)
        with (
            self.admission.hold_output(tokens * BYTES_PER_TOKEN, "outputs.pooled", "") as held,
            self.admission.admit(tokens) as permit,
        ):
            return await self.batcher.submit(permit, "m", items, deadline, held, priority)

    @property
    def held(self) -> tuple[int, int]:
        """Tokens and bytes of results."""
        return self.admission.tokens.held, self.admission.outputs.held

    async def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert await asyncio.to_thread(self.engine.started.acquire, True, 30)


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Setup]:
    """See Setup."""
    setup = Setup(**options)
    try:
        yield setup
    finally:
        setup.engine.gate.set()
        setup.task.cancel()
        await asyncio.wait([setup.task])


def lengths(engine: FakeEngine) -> list[list[int]]:
    return [[len(each.ids) for each in batch] for batch in engine.batches]
