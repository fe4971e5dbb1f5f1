"""Wait of an event loop for a request of the core."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Any

from headlight_service.core.handle import Handle


async def answered(handle: Handle[Any]) -> None:
    """Wait for the answer or the error; after that, `handle.result()` does not wait."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    handle.future.add_done_callback(lambda _: wake(loop, event))
    await event.wait()


async def done(handle: Handle[Any]) -> None:
    """Wait as `answered` does, and end the request at its deadline if no engine computes it."""
    deadline = handle.request.deadline
    if deadline == math.inf:
        await answered(handle)
        return
    late = asyncio.get_running_loop().call_later(deadline - time.monotonic(), handle.expire)
    try:
        await answered(handle)
    finally:
        late.cancel()


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop. From any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(event.set)
