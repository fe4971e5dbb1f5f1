"""A loop's clock for tests that wait by it: what stops the whole machine hardly passes on it.

A reader who takes a little every tenth of a second is a slow one, and is cut, once the machine has
stood still for half a second: the service's timers and those of the test go by the same clock, but
after a pause all that are due are run at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable

import pytest

TICK, MOST = 0.02, 0.05  # seconds: between two readings at most; that may pass between two


def steadied(clock: Callable[[], float]) -> Callable[[], float]:
    """The same clock, on which no more than MOST passes between two readings."""
    last, lost = clock(), 0.0
    lock = threading.Lock()  # the threads of calls read it, too

    def now() -> float:
        nonlocal last, lost
        with lock:
            at = clock()
            lost, last = lost + max(0.0, at - last - MOST), at
            return at - lost

    return now


@pytest.fixture
async def steady() -> AsyncIterator[None]:
    """The event loop's clock is steadied.

    Not so time.monotonic(), by which deadlines go, nor the timers of gRPC's own.
    """
    loop = asyncio.get_running_loop()

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", steadied(loop.time))
        ticking = asyncio.create_task(tick())
        yield
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
