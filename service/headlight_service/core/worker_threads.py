"""Threads for work that would hold up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from headlight.wire.priority import Priority
from headlight_service.core.priority_semaphore import Turns
from headlight_service.core.watchdog import Heartbeat

T = TypeVar("T")
# Steps of `nice` behind the threads that answer callers: five are a third of the share.
COMPUTING, COMPUTING_BULK = 5, 10


class WorkerThreads:
    """Threads that each run one piece of work at a time, in the order in which it came.

    An executor would do, and takes twice as long to hand over work and result: three locks and two futures for each.
    """

    def __init__(self, count: int, name: str, *, behind: int = 0) -> None:
        """Start the threads; they end with the process, or after `close`.

        Args:
            count: of threads.
            name: of each, before its number.
            behind: how far they stand behind others: see `stand_behind`.
        """
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=_serve, args=(self._work, behind), name=f"{name}_{number}", daemon=True).start()

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Hand over some work; what it returns or raises comes as a future."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._work.put((loop, future, work))
        return future

    def close(self) -> None:
        """Let each thread end once it has nothing to do."""
        for _ in range(self._count):
            self._work.put(None)


class Threads:
    """So many threads whose callers wait for one on the event loop, never in the threads' queue.

    So whoever leaves while waiting takes along what he wanted to have worked on: a queue of threads would keep it. And interactive
    goes first there, with a thread that bulk never has where there are two or more: see `Turns`.

    Attributes:
        heart: beats when work is begun or done.
    """

    def __init__(self, count: int, name: str) -> None:
        """Start the threads."""
        self._workers = WorkerThreads(count, name)
        self._turns = Turns(count)
        self.heart = Heartbeat()

    async def run(self, work: Callable[[threading.Event], T], priority: Priority = "interactive") -> T:
        """The result of `work`, which is given an event: once that is set nobody waits for it any longer, and it may stop.

        A caller who leaves meanwhile is let go when the thread is done, as are his permits: it holds what they stand for.
        """
        self.heart.begin()
        try:
            async with self._turns.take(priority):
                return await self._run(work)
        finally:
            self.heart.end()

    async def _run(self, work: Callable[[threading.Event], T]) -> T:
        left = threading.Event()
        running = self._workers.start(functools.partial(work, left))
        self.heart.beat()
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            left.set()
            await asyncio.wait([running])
            running.exception()  # seen
            raise
        finally:
            self.heart.beat()
        try:
            return running.result()
        finally:
            del running  # an error would hold this frame, and this frame the error

    def close(self) -> None:
        """Let each thread end once it has nothing to do."""
        self._workers.close()


_Work = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]


def stand_behind(steps: int = COMPUTING) -> None:
    """From here on this thread, and all that it starts, get a CPU that several want less often than other threads.

    Those who compute have it nearly always. Whoever answers callers wants it for a moment, and should not wait for the
    end of another's turn, of some milliseconds, each time.
    """
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + steps)


def _serve(todo: queue.SimpleQueue[_Work | None], behind: int) -> None:
    """Run what comes, until None does."""
    if behind:
        stand_behind(behind)
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
