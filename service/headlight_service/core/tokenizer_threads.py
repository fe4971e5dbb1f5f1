"""Threads that tokenise long texts. Those of bulk are others: interactive never waits for them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from headlight.spec import Priority
from headlight_service.core.heartbeat import Heartbeat
from headlight_service.core.worker_threads import COMPUTING, WorkerThreads


class TokenizerThreads:
    """Threads for interactive requests, and for bulk one less, with a smaller share of the CPU.

    Attributes:
        count: number of threads for interactive requests.
        heartbeat: beats when work begins or ends.
    """

    def __init__(self, count: int, name: str = "tokenize") -> None:
        """Start the threads."""
        self.count = count
        self._threads: dict[Priority, WorkerThreads] = {
            "interactive": WorkerThreads(count, name),
            "bulk": WorkerThreads(max(1, count - 1), f"{name}_bulk", behind=COMPUTING),
        }
        self._lock = threading.Lock()
        self._waiting: dict[Callable[[], None], list[Callable[[], None]]] = {}
        self.heartbeat = Heartbeat()

    def submit(self, work: Callable[[], None], priority: Priority) -> None:
        """Run `work` when a thread is free for it."""
        turn = [work]
        with self._lock:
            if not self.heartbeat.work:
                self.heartbeat.moved = self.heartbeat.clock()
            self.heartbeat.work += 1
            self._waiting[work] = turn
        self._threads[priority].put(functools.partial(self._run, turn))

    def withdraw(self, work: Callable[[], None]) -> bool:
        """Drop work that still waits, and return whether it did."""
        with self._lock:
            turn = self._waiting.pop(work, None)
            if turn is not None:
                turn.clear()  # its thread may come to it late
                self.heartbeat.work -= 1
            return turn is not None

    def close(self) -> None:
        """Let each thread end after its work."""
        for threads in self._threads.values():
            threads.close()

    def _run(self, turn: list[Callable[[], None]]) -> None:
        with self._lock:
            if not turn:
                return
            work = turn.pop()
            self._waiting.pop(work, None)
            self.heartbeat.moved = self.heartbeat.clock()
        try:
            work()
        finally:
            with self._lock:
                self.heartbeat.moved = self.heartbeat.clock()
                self.heartbeat.work -= 1
