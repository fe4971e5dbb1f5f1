"""An event loop clock for tests, which skips pauses of the whole machine.

A slow reader that takes a little every tenth of a second would hit the reply timeout once the
machine has paused for half a second: the timers of service and test use the same clock, but after
a pause all due timers run at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable

import pytest

TICK, MOST = 0.02, 0.05  # seconds: between two readings at most; that may pass between two


def steadied(clock: Callable[[], float]) -> Callable[[], float]:
    """Return the same clock with at most MOST between two readings."""
    last, lost = clock(), 0.0
    lock = threading.Lock()  # the threads of calls also read it

    def now() -> float:
        nonlocal last, lost
        with lock:
            at = clock()
            lost, last = lost + max(0.0, at - last - MOST), at
            return at - lost

    return now


@pytest.fixture
async def steady() -> AsyncIterator[None]:
    """Replace the event loop's clock with the steady one.

    time.monotonic(), used for deadlines, and gRPC's own timers are unchanged.
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
