"""Threads that decode large requests and encode large answers, for event loops."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from headlight_service.core.worker_threads import WorkerThreads

T = TypeVar("T")
THREADS = 2  # so many requests or answers are held as objects at once, whatever waits


class CodecThreads:
    """Threads that start with the service: later, the system might have none left."""

    def __init__(self) -> None:
        self._threads = WorkerThreads(THREADS, "codec")

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Return the future of some work, which can be cancelled until it begins."""
        future: Future[T] = Future()
        self._threads.put(functools.partial(_run, work, future))
        return future

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of some work. Raises its error."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()


def _run(work: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
