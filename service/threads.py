"""Threads for work that would hold up the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """So many threads of an executor. Their callers wait for one on the event loop, never in the executor's queue.

    So whoever leaves while waiting takes along what he wanted to have worked on: an executor's queue would keep it.
    """

    def __init__(self, executor: Executor, count: int) -> None:
        """Nothing runs yet.

        Args:
            executor: with at least so many threads.
            count: pieces of work at a time.
        """
        self._executor = executor
        self._free = asyncio.Semaphore(count)

    async def run(self, work: Callable[[threading.Event], T]) -> T:
        """The result of `work`, which is given an event: once that is set nobody waits for it any longer, and it may stop.

        A caller who leaves meanwhile is let go when the thread is done, as are his permits: it holds what they stand for.
        """
        async with self._free:
            left = threading.Event()
            running = asyncio.get_running_loop().run_in_executor(self._executor, work, left)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                left.set()
                await asyncio.wait([running])
                raise
