"""Scheduler: from queued items to batches and results. Threads pull batches under one lock."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from headlight.errors import DeadlineExceeded, DeviceLost, Reason, Unavailable
from headlight.runtime.values import GraphRole
from headlight.spec import Priority
from headlight_service.core.heartbeat import Heartbeat
from headlight_service.core.scheduler.batch_halving import Outcome
from headlight_service.core.scheduler.batch_policy import ExecutionSlots, LaneSet
from headlight_service.core.scheduler.cpu_time import Begun, Stopwatch
from headlight_service.core.scheduler.engine_health import EngineFunctions, EngineHealth, EngineLost
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, LaneKey
from headlight_service.core.scheduler.pending_requests import Member, Members, PendingRequest, tell
from headlight_service.core.scheduler.running_batch import RunningBatch, begin, compute
from headlight_service.core.worker_threads import COMPUTING, COMPUTING_BULK, WorkerThreads
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.core.scheduler.scheduler")
Begin = tuple[RunningBatch | None, list[PendingRequest]]  # batch with a slot; expired requests


@dataclasses.dataclass(slots=True)
class ServedEngine:
    """An engine and its work."""

    engine: EngineFunctions
    stopwatch: Stopwatch
    work: int = 0  # its requests in the queue, and its running batches
    on_removed: Callable[[], object] | None = None  # set: it is given up once it has no work


class Scheduler:
    """The queue of one process, and the threads that run its batches. Called from any thread.

    How much may be queued is the matter of `Admission`.

    It serves any number of models: they share the queue, the execution slots and the threads.

    Attributes:
        lock: guards the queue, and all that is decided together with it. It is reentrant.
        heartbeat: beats when a batch begins or ends.
    """

    def __init__(
        self,
        *,
        slots: int = 1,
        bulk_seconds: float = math.inf,
        on_lost: Callable[[EngineLost], None] = lambda error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the threads; `add` adds the engines.

        Args:
            slots: batches of a priority in the engines at the same time, of all models together.
            bulk_seconds: target time of a bulk batch.
            on_lost: called on any thread if an engine does not recover, after all requests failed.
            clock: monotonic clock, in seconds.
        """
        self.lock = threading.RLock()
        self.heartbeat = Heartbeat(clock)
        self._engines = dict[str, ServedEngine]()
        self._health = EngineHealth()
        self._queue: LaneSet[Member] = LaneSet(bulk_seconds=bulk_seconds)
        self._slots = ExecutionSlots(slots)
        # On the same CPUs, with one thread for each batch, interactive batches get three quarters.
        self._threads: dict[Priority, WorkerThreads] = {
            "interactive": WorkerThreads(slots, "engine", behind=COMPUTING),
            "bulk": WorkerThreads(slots, "bulk", behind=COMPUTING_BULK),
        }
        self._on_lost = on_lost
        self._clock = clock
        self._pending: set[PendingRequest] = set()
        self._called = False  # a thread was woken for interactive, and has taken nothing yet
        self._closed = False

    def add(
        self,
        model: str,
        engine: EngineFunctions,
        limits: Mapping[GraphRole, BatchLimit],
        weight: float = 1.0,
    ) -> None:
        """Serve one more engine.

        Args:
            model: key of its requests, unique in the process.
            engine: its functions.
            limits: batch limit of each role that it has.
            weight: its share of the slots, beside those of other engines with waiting items.
        """
        with self.lock:
            self._engines[model] = ServedEngine(engine, Stopwatch(self._clock, engine.worked))
            self._health.add(model, engine)
            for role, limit in limits.items():
                self._queue.open(LaneKey(model, role), limit, weight)

    def remove(self, model: str, on_removed: Callable[[], object]) -> None:
        """Give up an engine once its requests and its batches have ended.

        Args:
            model: key of its requests; none may be submitted any more.
            on_removed: called when the scheduler no longer refers to it, with the lock held.
        """
        with self.lock:
            self._engines[model].on_removed = on_removed
            self._add_work(model, 0)

    def _add_work(self, model: str, change: int) -> None:
        """Count the work of an engine, and give it up if it has none and is to go."""
        served = self._engines[model]
        served.work += change
        if served.on_removed is not None and not served.work:
            del self._engines[model]
            self._health.remove(model)
            self._queue.close(model)
            served.on_removed()

    def begins_at_once(self, priority: Priority) -> bool:
        """Return whether a request that came now would not wait. With the lock held."""
        waiting, slots = self._queue.waiting, self._slots
        if waiting["interactive"] or not slots.idle(priority):
            return False
        return priority == "interactive" or not (waiting["bulk"] or slots.hold_bulk)

    def submit(self, pending: PendingRequest, *, may_compute: bool = False) -> None:
        """Queue the items of one request. It is notified of its results or its error.

        Args:
            pending: not queued yet.
            may_compute: run the next batch on this thread, if it is interactive and a slot is idle.

        Raises:
            Unavailable: the scheduler has ended.
        """
        with self.lock:
            if self._ended:  # callers are notified shortly before the end
                raise Unavailable(Reason.ENDING)
            if pending.over:  # withdrawn meanwhile
                return
            self._enqueue(pending)
            if not may_compute:
                self._call_threads()
        if may_compute:
            self._work(self._pull)

    def withdraw(self, pending: PendingRequest) -> bool:
        """Drop a request, and return whether some of it still waited. Running batches go on."""
        with self.lock:
            waited = pending.waits
            if pending.claim_end(None) and pending in self._pending:
                self._settle([pending])
            return waited

    def expire(self, pending: PendingRequest) -> None:
        """End a request whose deadline has passed, unless an engine has all its items."""
        with self.lock:
            expired = pending.waits and pending.claim_end(DeadlineExceeded(Reason.EXPIRED))
            if expired:
                self._settle([pending])
        if expired:
            pending.tell()

    def close(self) -> None:
        """Fail all waiting requests, and let the threads end."""
        with self.lock:
            self._closed = True
            over = [
                pending
                for pending in self._pending
                if pending.claim_end(Unavailable(Reason.ENDING))
            ]
            self._settle(over)
        tell(over)
        for threads in self._threads.values():
            threads.close()

    def _enqueue(self, pending: PendingRequest) -> None:
        now = self._clock()
        model = pending.lane.model
        self._queue.add(*pending.enter(now, self._engines[model].engine.rounding))
        self._pending.add(pending)
        self._add_work(model, 1)
        if not self.heartbeat.work:
            self.heartbeat.moved = now
        self.heartbeat.work += 1

    @property
    def _ended(self) -> bool:
        return self._closed or self._health.lost is not None

    def _call_threads(self) -> None:
        """Have threads run the batches that can begin.

        A bulk batch is formed now, and has its slot, because its thread has the lowest priority. An
        interactive batch is formed by the thread that is woken for it, from the items that have
        come by then.
        """
        while not self._ended and self._queue.ready("bulk", self._slots):
            begun = self._begin("bulk")
            self._threads["bulk"].put(functools.partial(self._work, begun))
        if not (self._called or self._ended) and self._queue.ready("interactive", self._slots):
            self._called = True
            self._threads["interactive"].put(functools.partial(self._work, self._pull))

    def _pull(self) -> Begin:
        """Take the next interactive batch for this thread."""
        with self.lock:
            self._called = False
            begun = self._begin("interactive")
            self._call_threads()
            return begun

    def _work(self, begun: Begin | Callable[[], Begin]) -> None:
        """Run a batch on this thread."""
        try:
            running, expired = begun() if callable(begun) else begun
            tell(expired)
            if running is not None:
                self._run_batch(running)
        except Exception as error:  # a bug, which leaves an unknown state
            log.critical("the scheduler failed", extra={"event": "call_failed", **describe(error)})
            with self.lock:
                self._health.lost = self._health.lost or EngineLost("the scheduler failed")
            self._end()

    def _begin(self, priority: Priority) -> Begin:
        """Give the next batch of a priority a slot; return it, and the expired requests."""
        batch, over = Batch[Member](), list[PendingRequest]()
        while not (batch.entries or self._ended):
            batch = self._queue.take(self._clock(), self._slots, priority)
            if not batch.expired:
                break
            over += Members(batch.expired).fail(DeadlineExceeded(Reason.EXPIRED))
        self._settle(over)
        if not batch.entries:
            return None, over
        first = batch.entries[0]
        model, role = first.lane
        can_be_wide = role in self._engines[model].engine.wide
        slot = self._slots.begin(priority, self._queue.waiting["interactive"], can_be_wide)
        running = begin(batch, slot, self._queue.limits[first.lane].tokens)
        self._add_work(model, 1)
        self.heartbeat.work += 1
        self.heartbeat.moved = self._clock()
        if running.stall_allowance > 1.0:
            self.heartbeat.allowances.append(running.stall_allowance)
        return running, over

    def _run_batch(self, running: RunningBatch) -> None:
        model = running.model
        served = self._engines[model]
        engine, tracing = served.engine, served.engine.tracing
        bulk = running.slot.priority == "bulk"  # only bulk batch sizes are learnt
        begun_at = (
            served.stopwatch.begin(self._slots.running) if bulk else Begun(self._clock(), 0.0, 0)
        )
        span = tracing and tracing.begin(running.batch, wide=running.slot.wide)
        items = [entry.value.item for entry in running.batch.entries]
        outcomes = compute(engine.run, items, wide=running.slot.wide)
        if span:
            span.end(failed=isinstance(outcomes, Exception))
        with self.lock:
            running.members.ended()
            slots = self._slots.count if running.slot.wide else 1
            self._queue.ended(running.batch, slots * (self._clock() - begun_at.at))
            if self._health.lost and isinstance(outcomes, list | DeviceLost):
                # Results computed while the device was lost are not trusted. Only the first batch
                # to lose it gets that error: a retry of it would break the next replica, too.
                over, suspect = running.members.fail(Unavailable(Reason.ENDING)), None
            elif isinstance(outcomes, Exception):
                over, suspect = running.members.fail(outcomes), self._health.failed(model, outcomes)
            else:
                over, suspect = self._deliver(running, begun_at, outcomes)
            self._settle(over)
            if suspect is None:
                self._release(running)
        tell(over)
        if suspect is not None:  # on the scheduler's thread: the caller's should not wait for it
            probing = functools.partial(self._probe, running)
            self._threads[running.slot.priority].put(probing)
        elif self._health.lost:
            self._end()

    def _deliver(
        self, running: RunningBatch, begun: Begun, outcomes: Sequence[Outcome]
    ) -> tuple[list[PendingRequest], Exception | None]:
        """Deliver the results; return the requests to notify, and the error for which to probe."""
        done, batch = self._clock(), running.batch
        served = self._engines[running.model]
        over = running.members.deliver(outcomes, begun.at, done)
        failed = any(isinstance(each, Exception) for each in outcomes)
        if not failed:  # a failed batch gives no rate
            if running.slot.priority == "bulk":
                self._queue.ran(
                    batch, served.stopwatch.cpu_seconds(begun, done, self._slots.running)
                )
            served.engine.observe(running.report(done - begun.at))
            if self._health.well:
                return over, None
        return over, self._health.ran(running.model, outcomes)

    def _release(self, running: RunningBatch) -> None:
        """Free the slot of a batch for the next."""
        self._slots.end(running.slot)
        self.heartbeat.work -= 1
        self.heartbeat.moved = self._clock()
        if running.stall_allowance > 1.0:
            self.heartbeat.allowances.remove(running.stall_allowance)
        self._add_work(running.model, -1)
        self._call_threads()

    def _probe(self, running: RunningBatch) -> None:
        """Probe the engine of a failed batch, which keeps its slot until then."""
        why = self._health.probe(running.model)
        with self.lock:
            self._health.probed(running.model, why)
            self._release(running)
        if self._health.lost:
            self._end()

    def _end(self) -> None:
        """Fail everything after an engine is lost, and report it, once."""
        with self.lock:
            first, self._closed = not self._closed, True
        if first and self._health.lost is not None:
            self.close()
            self._on_lost(self._health.lost)

    def _settle(self, over: Sequence[PendingRequest]) -> None:
        """Remove ended requests from the queue."""
        for pending in over:
            for entry in pending.entries:
                self._queue.discard(entry)
            pending.entries = []  # breaks the cycle: they refer back to it
            self._pending.discard(pending)
            self._add_work(pending.lane.model, -1)
            self.heartbeat.work -= 1
