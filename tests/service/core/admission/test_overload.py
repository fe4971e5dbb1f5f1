"""Simulation of twice the load that the engine can serve.

The real queue and admission, with a simulated clock.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
import random
from collections.abc import Callable

import pytest

from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Expected, WaitEstimate
from headlight_service.core.admission.shed_error import Shed
from headlight_service.core.scheduler.batch_policy import LaneSet
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, Entry, LaneKey
from tests.service.batching import Slots

LANE = LaneKey("m", "embed")
STREAMS, RATE = 2, 4500.0  # concurrent batches; padded tokens per second of each
SECONDS, DEADLINE = 40.0, 2.0


def length(rng: random.Random) -> int:
    """Return the tokens of a text: half have 36 and more, a few fill the model."""
    return int(min(256, max(5, rng.lognormvariate(math.log(36), 0.95))))


@dataclasses.dataclass(eq=False)
class Request:
    expected: Expected
    came: float
    tokens: int
    missing: int
    over: bool = False
    entries: list[Entry[Request]] = dataclasses.field(default_factory=list)


class Overloaded:
    """Simulation: requests of so many texts arrive at twice the rate of the engine."""

    def __init__(self, group: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._group = group
        self._lanes: LaneSet[Request] = LaneSet({LANE: BatchLimit(512)})
        self._estimate = WaitEstimate(STREAMS)
        self._admission = Admission(
            max_tokens=10**7,
            max_request_bytes=10**12,
            max_output_bytes=10**12,
            estimates=[self._estimate],
        )
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []
        self._order, self._idle = itertools.count(), STREAMS
        self.refused = self.late = self.answered = 0
        self.computed = self.useful = 0  # tokens

    def run(self) -> None:
        self._at(0.0, self._arrive)
        while self._coming:
            now, _, happen = heapq.heappop(self._coming)
            happen(now)
            self._start(now)

    def _at(self, moment: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._coming, (moment, next(self._order), happen))

    def _arrive(self, now: float) -> None:
        if now < SECONDS:
            self._at(
                now + self._rng.expovariate(2 * RATE * STREAMS / (56 * self._group)), self._arrive
            )
        lengths = sorted((length(self._rng) for _ in range(self._group)), reverse=True)
        try:
            expected = self._admission.check_wait(
                self._estimate, sum(lengths), DEADLINE, "interactive"
            )
            self._admission.take_tokens(self._estimate, sum(lengths), "interactive")
        except Shed:
            self.refused += 1
            return
        assert expected is not None
        request = Request(expected, now, sum(lengths), len(lengths))
        for size in lengths:
            request.entries.append(Entry(LANE, request, size, size, now, now + DEADLINE))
            self._lanes.add(request.entries[-1])

        self._at(now + DEADLINE, lambda _: self._expire(request))

    def _expire(self, request: Request) -> None:
        if sum(self._lanes.discard(entry) for entry in request.entries):
            self._give_up(request)

    def _give_up(self, request: Request) -> None:
        if not request.over:
            self._end(request, math.inf)
            for entry in request.entries:
                self._lanes.discard(entry)

    def _end(self, request: Request, seconds: float) -> None:
        request.over = True
        self._admission.give_tokens(self._estimate, request.tokens, "interactive")
        self._estimate.waited(request.expected, "interactive", seconds, answered=seconds < math.inf)
        if seconds <= DEADLINE:
            self.answered += 1
            self.useful += request.tokens
        else:
            self.late += 1

    def _start(self, now: float) -> None:
        while self._idle and any(self._lanes.waiting.values()):
            batch = self._lanes.take(now, Slots(self._idle))
            for entry in batch.expired:
                self._give_up(entry.value)
            if batch.entries:
                self._idle -= 1
                seconds = 0.0005 + batch.padded / RATE * self._rng.uniform(0.8, 1.2)
                finish = functools.partial(self._finish, batch, seconds)
                self._at(now + seconds, finish)

    def _finish(self, batch: Batch[Request], seconds: float, now: float) -> None:
        self._idle += 1
        self._lanes.ran(batch, seconds)
        self._estimate.worked_off(batch.total, seconds)
        self.computed += batch.total
        for entry in batch.entries:
            request = entry.value
            request.missing -= 1
            if request.missing or request.over:
                continue
            self._end(request, now - request.came)


@pytest.mark.parametrize(("group", "seed"), [(1, 0), (8, 1), (32, 2)])
def test_most_admitted_requests_are_answered_in_time_under_overload(group: int, seed: int) -> None:
    load = Overloaded(group, seed)
    load.run()
    assert load.refused > load.answered / 2, "twice as much came as could be done"
    assert load.useful >= 0.98 * load.computed
    assert load.computed >= 0.85 * RATE * STREAMS * SECONDS, "the queue never ran dry"
    assert load.late <= 0.02 * (load.answered + load.late)
