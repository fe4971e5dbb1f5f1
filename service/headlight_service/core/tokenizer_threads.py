"""Threads that tokenise long texts. Those of bulk are others: interactive never waits for them."""

from __future__ import annotations

import dataclasses
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
        heartbeats: beat when work of a priority begins or ends.
    """

    def __init__(self, count: int, name: str = "tokenize") -> None:
        """Start the threads."""
        self.count = count
        self._threads: dict[Priority, WorkerThreads] = {
            "interactive": WorkerThreads(count, name),
            "bulk": WorkerThreads(max(1, count - 1), f"{name}_bulk", behind=COMPUTING),
        }
        self.heartbeats = {priority: Heartbeat() for priority in self._threads}
        self._lock = threading.Lock()
        self._waiting: dict[Callable[[], None], _Turn] = {}

    @property
    def stalled_seconds(self) -> float:
        """Seconds without progress of one of the priorities; see `Heartbeat`."""
        return max(each.stalled_seconds for each in self.heartbeats.values())

    def submit(self, work: Callable[[], None], priority: Priority) -> None:
        """Run `work` when a thread is free for it."""
        turn, heartbeat = _Turn(work, priority), self.heartbeats[priority]
        with self._lock:
            if not heartbeat.work:
                heartbeat.moved = heartbeat.clock()
            heartbeat.work += 1
            self._waiting[work] = turn
        self._threads[priority].put(functools.partial(self._run, turn))

    def withdraw(self, work: Callable[[], None]) -> bool:
        """Drop work that still waits, and return whether it did."""
        with self._lock:
            turn = self._waiting.pop(work, None)
            if turn is None:
                return False
            turn.work = None  # its thread may come to it late
            self.heartbeats[turn.priority].work -= 1
            return True

    def close(self) -> None:
        """Let each thread end after its work."""
        for threads in self._threads.values():
            threads.close()

    def _run(self, turn: _Turn) -> None:
        heartbeat = self.heartbeats[turn.priority]
        with self._lock:
            work, turn.work = turn.work, None
            if work is None:
                return
            self._waiting.pop(work, None)
            heartbeat.moved = heartbeat.clock()
        try:
            work()
        finally:
            with self._lock:
                heartbeat.moved = heartbeat.clock()
                heartbeat.work -= 1


@dataclasses.dataclass(slots=True)
class _Turn:
    """Work that waits; None: it was withdrawn, or has begun."""

    work: Callable[[], None] | None
    priority: Priority
