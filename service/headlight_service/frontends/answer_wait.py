"""Wait of an event loop for a request of the core."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from headlight_service.core.handle import Handle


async def done(handle: Handle[Any]) -> None:
    """Wait for the answer or the error; after that, `handle.result()` does not wait."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    handle.future.add_done_callback(lambda _: wake(loop, answered))
    await answered.wait()


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop. From any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(event.set)
