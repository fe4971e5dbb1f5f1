"""Threads of the gRPC server: one for each call that waits for its caller or for its answer."""

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
# Calls that are open, from which on new ones are refused. Streams hold their thread while they are
# idle, so they stop earlier; probes of our health are counted apart.
MOST_STREAMS, MOST_CALLS, MOST_PROBES = 3072, 4096, 512
KEPT_THREADS = 64  # which stay when nothing is to be done
IDLE_SECONDS = 10.0  # after which the others end
SHORT_SECONDS = 10.0  # for which the number of threads that the system gave us is held to be the most

_Task: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
_Inbox: TypeAlias = "queue.SimpleQueue[_Task]"  # of an idle thread: its next task


class CallThreads:
    """An executor for grpc.server that starts threads on demand and never raises.

    ThreadPoolExecutor raises where the system has no more threads, which ends the thread that
    serves all calls; and it keeps each thread for ever. The last idle thread works first here.

    Attributes:
        probes: calls to the health service that hold a thread.
    """

    def __init__(self) -> None:
        """Start nothing before the first call."""
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []
        self._waiting: deque[_Task] = deque()
        self._count = 0
        self._most = 0  # threads that the system gave, when it had no more
        self._short_until = 0.0
        self.probes = 0

    @property
    def busy(self) -> int:
        """How many threads work, or wait within a call; those of probes are not counted."""
        return self._count - len(self._idle) - self.probes

    def should_refuse(self, streaming: bool) -> bool:
        """Return whether one more call should be refused, as a stream or as a call of one message.

        If the system has no more threads, half of those that there are may be of streams and three
        quarters of all calls: the rest refuses, writes and answers probes.
        """
        most = MOST_STREAMS if streaming else MOST_CALLS
        if time.monotonic() < self._short_until:
            most = min(most, self._most // 2 if streaming else self._most * 3 // 4)
        return self.busy >= most

    def add_probe(self) -> bool:
        """Count one more probe; False: there are too many, and the oldest should make room."""
        with self._lock:
            self.probes += 1
            return self.probes <= MOST_PROBES

    def remove_probe(self) -> None:
        """Count one probe less."""
        with self._lock:
            self.probes -= 1

    def submit(self, work: Callable[..., object], /, *args: Any) -> None:
        """Run `work(*args)` on a thread; what it returns is dropped. There is no future, of which gRPC has no need."""
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
        """Leave a task to the threads that there are; one that became idle meanwhile takes it."""
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
            task = None  # it holds a call, and the next may be long in coming
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
