"""Threads for work that would hold up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

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


class Workers:
    """Threads for an engine: each runs one piece of work at a time, in the order in which it came.

    An executor would do, and takes twice as long to hand over work and result: three locks and two futures for each.
    """

    def __init__(self, count: int, name: str) -> None:
        """Start the threads; they end with the process, or after `close`."""
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=_serve, args=(self._work,), name=f"{name}_{number}", daemon=True).start()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._work.put((loop, future, work))
        return await future

    def close(self) -> None:
        """Let each thread end once it has nothing to do."""
        for _ in range(self._count):
            self._work.put(None)


_Work = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]


def _serve(todo: queue.SimpleQueue[_Work | None]) -> None:
    """Run what comes, until None does."""
    while (task := todo.get()) is not None:
        loop, future, work = task
        try:
            settle = functools.partial(_settle, future, work(), None)
        except BaseException as error:
            settle = functools.partial(_settle, future, None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle)
        # They hold what was worked on and what came of it, and the next may be long in coming.
        del task, loop, future, work, settle


def _settle(future: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    if future.done():  # cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
