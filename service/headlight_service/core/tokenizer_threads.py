"""Threads that tokenise long requests: interactive first, and never all of them for bulk."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from headlight.spec import PRIORITIES, Priority
from headlight_service.core.heartbeat import Heartbeat
from headlight_service.core.scheduler.batch_policy import BULK_TURN
from headlight_service.core.worker_threads import WorkerThreads


class TokenizerThreads:
    """A priority semaphore over worker threads.

    If there are several threads, bulk never holds all of them, which would last until all of its
    work is done. Every BULK_TURN-th turn is bulk's if both wait.

    Attributes:
        count: number of threads.
        heartbeat: beats when work begins or ends.
    """

    def __init__(self, count: int, name: str = "tokenize") -> None:
        """Start the threads, all free."""
        self.count = count
        self._workers = WorkerThreads(count, name)
        self._lock = threading.Lock()
        self._free = count
        self._free_to_bulk = max(1, count - 1)
        # Dictionaries, so that withdrawn work is removed at once from any place.
        self._waiting: dict[Priority, dict[Callable[[], None], None]] = {
            priority: {} for priority in PRIORITIES
        }
        self._turn = 0
        self.heartbeat = Heartbeat()

    def submit(self, work: Callable[[], None], priority: Priority) -> None:
        """Run `work` when a thread is free for it."""
        with self._lock:
            if not self.heartbeat.work:
                self.heartbeat.moved = self.heartbeat.clock()
            self.heartbeat.work += 1
            self._waiting[priority][work] = None
            self._start()

    def withdraw(self, work: Callable[[], None], priority: Priority) -> bool:
        """Drop work that still waits, and return whether it did."""
        with self._lock:
            waited = work in self._waiting[priority]
            if waited:
                del self._waiting[priority][work]
                self.heartbeat.work -= 1
            return waited

    def close(self) -> None:
        """Let each thread end after its work; waiting work is never run."""
        self._workers.close()

    def _start(self) -> None:
        """Hand the next work to the free threads. With the lock held."""
        while self._free and (priority := self._next()) is not None:
            work = next(iter(self._waiting[priority]))
            del self._waiting[priority][work]
            self._turn += 1
            self._free -= 1
            self._free_to_bulk -= priority == "bulk"
            self.heartbeat.moved = self.heartbeat.clock()
            self._workers.put(functools.partial(self._run, work, priority))

    def _run(self, work: Callable[[], None], priority: Priority) -> None:
        try:
            work()
        finally:
            with self._lock:
                self.heartbeat.moved = self.heartbeat.clock()
                self.heartbeat.work -= 1
                self._free += 1
                self._free_to_bulk += priority == "bulk"
                self._start()

    def _next(self) -> Priority | None:
        """Return the priority of the next turn; None: no work may begin."""
        bulk = self._waiting["bulk"] and self._free_to_bulk
        if self._waiting["interactive"] and not (bulk and self._turn % BULK_TURN == 0):
            return "interactive"
        return "bulk" if bulk else None
