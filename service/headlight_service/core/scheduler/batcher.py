"""From items to batches to the engine and back: one task that feeds all streams and leaves none of them idle."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headlight.errors import DeadlineExceeded, DeviceLost, Unavailable
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.engine.batches import AS_LONG, Rounding
from headlight.wire.priority import Priority
from headlight_service.core.admission.permits import Permit
from headlight_service.core.cancellation import has_left
from headlight_service.core.scheduler.batch_policy import Lanes
from headlight_service.core.scheduler.cpu_time import Stopwatch
from headlight_service.core.scheduler.engine_pool import Engine, Engines
from headlight_service.core.scheduler.execution_slots import Started, Streams
from headlight_service.core.scheduler.lanes import Batch, Budget, Entry, LaneKey
from headlight_service.core.scheduler.pending_requests import Answer, Group, Members, Slot
from headlight_service.core.watchdog import Heartbeat
from headlight_service.telemetry.request_trace import CURRENT, stage

if TYPE_CHECKING:
    from headlight_service.telemetry.spans import BatchTracing

ENDING = "the service is shutting down; try another replica"
EXPIRED = "the deadline passed in the queue; what had not started never will"
# Tokens, from which on attention can take longer than all else: some six times the width of a small model.
ATTENTION_LENGTH = 2048


class BatchReport(NamedTuple):
    """One batch that ran, for metrics and for the estimate of the rate."""

    lane: LaneKey
    priority: Priority
    items: int
    tokens: int
    padded_tokens: int
    seconds: float
    wide: bool  # on the threads of all streams


class Batcher:
    """The queue and its workers. `submit` from the event loop; `run` is its one task, watched by whoever starts it.

    Attributes:
        heart: beats when a batch is begun or done.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        budgets: Mapping[LaneKey, Budget],
        *,
        streams: int = 1,
        bulk_seconds: float = math.inf,
        rounding: Rounding = AS_LONG,
        observe: Callable[[BatchReport], None] = lambda report: None,
        on_cancel: Callable[[LaneKey, str], None] = lambda lane, stage: None,
        tracing: BatchTracing | None = None,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] | None = None,
    ) -> None:
        """Nothing runs before `run`.

        Args:
            engines: by model name.
            budgets: one for each lane: a model and a role its engine has.
            streams: batches of a priority in the engines at the same time.
            bulk_seconds: that a batch of bulk should take.
            rounding: of the engines' batches.
            observe: told of every batch that succeeded.
            on_cancel: told of every request whose caller left: in "queue", or in "infer" where all its items had started.
            tracing: makes a span of each batch with a traced request.
            clock: seconds, monotonic.
            worked: as `Stopwatch` takes it.
        """
        self._engines = Engines(engines, streams)
        self._budgets = budgets
        self.heart = Heartbeat(clock)
        self._lanes: Lanes[Slot] = Lanes(budgets, bulk_seconds=bulk_seconds)
        self._rounding = rounding
        self._streams = Streams(streams)
        self._observe = observe
        self._on_cancel = on_cancel
        self._tracing = tracing
        self._clock = clock
        self._stopwatch = Stopwatch(clock, worked)
        self._work = asyncio.Event()
        self._waiting: set[Group] = set()
        self._closed = False

    def begins_at_once(self, priority: Priority) -> bool:
        """Whether a request that came now would be begun now: nothing waits that goes first, and a stream is idle."""
        if self._lanes.waiting("interactive") or not self._streams.idle(priority):
            return False
        return priority == "interactive" or not (self._lanes.waiting("bulk") or self._streams.hold_bulk)

    async def submit(
        self,
        permit: Permit,
        model: str,
        items: Sequence[EncodeItem],
        deadline: float = math.inf,
        outputs: Permit | None = None,
        priority: Priority = "interactive",
    ) -> Answer:
        """Queue the items of one request, all of one role, and wait for their results.

        Args:
            permit: for their tokens; the caller holds it until this returns. Of what is being computed then, for a caller who
                has left, the batcher keeps the permits until it is done.
            model: whose engine.
            items: at least one.
            deadline: on the clock; what has not started by then never will.
            outputs: the permit for their results.
            priority: how soon they are wanted.

        Raises:
            DeadlineExceeded: before all of them were started.
            EngineError: one of their batches failed, or the numbers of one of them are not finite.
            DeviceFull: one of them was too large for the memory of a GPU, and so were its halves.
            Unavailable: the batcher has ended.
        """
        if self._closed or self._engines.lost:
            raise Unavailable(ENDING)
        if not permit.amount:
            raise RuntimeError("the permit has been given back already. This is a bug.")
        lane = LaneKey(model, items[0].role)
        stage("queue")
        group = self._enqueue(lane, items, deadline, priority)
        expiry = self._expire_at(deadline, group)
        try:
            answer = await group.future
            stage("")
            return answer
        except BaseException as error:  # failed, expired or cancelled: whatever still waits need not run
            waited = self._withdraw(group)
            group.abandon(permit, outputs)
            if isinstance(error, asyncio.CancelledError) and has_left():
                self._on_cancel(lane, "queue" if waited else "infer")
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
            self._waiting.discard(group)
            self.heart.end()
            group.entries.clear()  # they refer back to the group
            if not group.future.cancelled():
                group.future.exception()  # seen, even where a cancellation overtook it
            del group  # an error would hold this frame, this frame the group, and the group the error, results and all

    async def run(self) -> None:
        """Take batches and run them, until cancelled.

        Raises:
            ExceptionGroup: of EngineLost, where an engine failed and does not recover.
        """
        try:
            async with asyncio.TaskGroup() as batches:
                while True:
                    await self._work.wait()
                    batch = self._lanes.take(self._clock(), self._streams.idle, hold_bulk=self._streams.hold_bulk)
                    Members(batch.expired).fail(DeadlineExceeded(EXPIRED))
                    if batch.entries:
                        batches.create_task(self._begin(batch))
                    elif not batch.expired:  # nothing waits, or what waits has to until a batch has ended
                        self._work.clear()
        finally:
            self._close()

    def _begin(self, batch: Batch[Slot]) -> Coroutine[Any, Any, None]:
        """What runs a batch; what it needs is no variable of `run`, which would hold its results until the next comes."""
        lane, priority = batch.entries[0].lane, batch.entries[0].priority
        wide = self._engines.can_be_wide(lane)
        started = self._streams.begin(priority, self._lanes.waiting("interactive"), wide)
        members = Members(batch.entries)
        members.begun()
        return self._execute(batch, members, started)

    def _enqueue(self, lane: LaneKey, items: Sequence[EncodeItem], deadline: float, priority: Priority) -> Group:
        now = self._clock()
        group = Group(asyncio.get_running_loop().create_future(), [None] * len(items), len(items), now)
        group.spans = CURRENT.get()
        lengths = [len(item.ids) for item in items]
        sizes = {length: self._rounding.up(length) for length in set(lengths)}
        # All are of one age. From the longest, batches cut them in order of length, and none is left with a mixture of both ends.
        places = sorted(range(len(items)), key=lengths.__getitem__, reverse=True)
        group.entries = [
            Entry(
                lane, Slot(group, place, items[place]), length := lengths[place], sizes[length], now, deadline, priority
            )
            for place in places
        ]
        self._lanes.add(*group.entries)
        self._waiting.add(group)
        self.heart.begin()
        self._work.set()
        return group

    def _expire_at(self, deadline: float, group: Group) -> asyncio.TimerHandle | None:
        """Not left to the next batch, which may be long in coming: permits and memory are wanted back at the deadline."""
        if deadline == math.inf:
            return None
        return asyncio.get_running_loop().call_later(deadline - self._clock(), self._expire, group)

    def _withdraw(self, group: Group) -> int:
        """Take a group's items out of the queue; returns how many were still waiting."""
        return sum(self._lanes.discard(entry) for entry in group.entries)

    def _expire(self, group: Group) -> None:
        """Its deadline has passed: end it, unless all of it is being computed already."""
        if self._withdraw(group):
            group.fail(DeadlineExceeded(EXPIRED))

    def _close(self) -> None:
        self._closed = True
        for group in self._waiting:
            group.fail(Unavailable(ENDING))
        self._engines.close()

    async def _execute(self, batch: Batch[Slot], members: Members, started: Started) -> None:
        """Run one batch; its stream is free again afterwards."""
        model = batch.entries[0].lane.model
        begun, patience = self._stopwatch.begin(self._streams.running), self._patience(batch)
        self.heart.begin(patience)
        self.heart.beat()
        span, failed = None, True
        try:
            try:
                if self._tracing is not None:
                    span = self._tracing.begin(batch, wide=started.wide)
                results = await self._engines.run(model, members.items, started.priority, wide=started.wide)
                failed = False
            finally:
                members.ended()
                if span is not None:
                    span.end(failed=failed)
        except Exception as error:  # whatever an engine raises concerns this batch alone
            # Of a lost device the first is told as it is, not as Unavailable: who tries again would send to the next what broke it.
            known = isinstance(error, DeviceLost) and self._engines.lost
            members.fail(Unavailable(ENDING) if known else error)
            await self._engines.failed(model, error, started.priority)
        else:
            if self._engines.lost:  # by another batch: what this one computed beside it is not to be believed either
                members.fail(Unavailable(ENDING))
                return
            done = self._clock()
            if members.deliver(results, begun.at, done):  # else the rate would be no batch's
                self._lanes.ran(batch, self._stopwatch.effort(begun, done, self._streams.running))
                self._report(batch, done - begun.at, started.wide)
            await self._engines.ran(model, results, started.priority)
        finally:
            self._streams.end(started)
            self.heart.end(patience)
            self.heart.beat()
            self._work.set()  # for those who wait for a stream
            del batch, members  # an error would hold this frame, this frame the groups, and they the error

    def _patience(self, batch: Batch[Slot]) -> float:
        """How many times as long as others a batch may take, for its heartbeat.

        One larger than its lane's budget, as one long text is, has as much more time; and as much again for attention, whose share
        grows with the length.
        """
        longest = max(entry.length for entry in batch.entries)
        return batch.padded / self._budgets[batch.entries[0].lane].tokens * (1 + longest / ATTENTION_LENGTH)

    def _report(self, batch: Batch[Slot], seconds: float, wide: bool) -> None:
        first, count = batch.entries[0], len(batch.entries)
        self._observe(BatchReport(first.lane, first.priority, count, batch.total, batch.padded, seconds, wide))
