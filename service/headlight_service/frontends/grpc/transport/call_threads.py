"""Threads of the gRPC server: one for each call that waits for its client or its answer."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.grpc.transport.call_threads")
# Open calls, from which on new ones are refused. Idle streams hold their threads, so their limit is
# lower. Health probes are counted apart.
MOST_STREAMS, MOST_CALLS, MOST_PROBES = 3072, 4096, 512
KEPT_THREADS = 64  # kept alive while idle
IDLE_SECONDS = 10.0  # after which other idle threads end
SHORT_SECONDS = 10.0  # seconds for which a failed start of a thread limits their number

_Task: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
_Inbox: TypeAlias = "queue.SimpleQueue[_Task]"  # of an idle thread: its next task


class CallThreads:
    """An executor for grpc.server that starts threads on demand and never raises.

    ThreadPoolExecutor raises if the system has no more threads, which ends the thread that serves
    all calls; and it never ends a thread. Here the thread that became idle last works first.

    Attributes:
        probes: calls to the health service that hold a thread.
    """

    def __init__(self) -> None:
        """Prepare; the first call starts the first thread."""
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []
        self._waiting: deque[_Task] = deque()
        self._count = 0
        self._most = 0  # number of threads when the system had no more
        self._short_until = 0.0
        self.probes = 0

    @property
    def busy(self) -> int:
        """Threads that work, or wait within a call; those of probes are not counted."""
        return self._count - len(self._idle) - self.probes

    def should_refuse(self, streaming: bool) -> bool:
        """Return whether to refuse one more call, as a stream or as a call of one message.

        If the system has no more threads, streams may hold half of the threads, and all calls three
        quarters. The rest refuses calls, writes and answers probes.
        """
        most = MOST_STREAMS if streaming else MOST_CALLS
        if time.monotonic() < self._short_until:
            most = min(most, self._most // 2 if streaming else self._most * 3 // 4)
        return self.busy >= most

    def add_probe(self) -> bool:
        """Count one more probe; return False if there are too many: the oldest should make room."""
        with self._lock:
            self.probes += 1
            return self.probes <= MOST_PROBES

    def remove_probe(self) -> None:
        """Count one probe less."""
        with self._lock:
            self.probes -= 1

    def submit(self, work: Callable[..., object], /, *args: Any) -> None:
        """Run `work(*args)` on a thread, and drop its result. gRPC needs no future."""
        task = (work, args)
        with self._lock:
            if self._idle:
                self._idle.pop().put(task)
                return
            self._count += 1
        try:
            threading.Thread(target=self._serve, args=(task,), name="call", daemon=True).start()
        except (RuntimeError, MemoryError):  # the system has no more threads
            self._queue(task)

    def _queue(self, task: _Task) -> None:
        """Queue a task for the existing threads; one that became idle meanwhile takes it."""
        with self._lock:
            self._count -= 1
            self._most = self._count
            self._short_until = time.monotonic() + SHORT_SECONDS
            self._waiting.append(task)
            if self._idle:
                self._idle.pop().put(self._waiting.popleft())

    def _serve(self, task: _Task | None) -> None:
        inbox: _Inbox = queue.SimpleQueue()
        while task is not None:
            _run(*task)
            task = None  # it holds a call, and the next may come late
            task = self._next(inbox)

    def _next(self, inbox: _Inbox) -> _Task | None:
        """Wait for the next task; None: the thread is no longer needed."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(inbox)
        try:
            return inbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle and self._count > KEPT_THREADS:
                    self._idle.remove(inbox)
                    self._count -= 1
                    return None
        return inbox.get()


def _run(work: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        work(*args)
    except BaseException as error:
        log.error("a call's thread failed", extra={"event": "call_failed", **describe(error)})
