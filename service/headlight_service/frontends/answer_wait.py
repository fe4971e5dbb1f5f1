"""Wait of an event loop for a request of the core."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from headlight_service.core.handle import Handle


async def done(handle: Handle[Any]) -> None:
    """Wait for the answer or the error; after that, `handle.result()` does not wait."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(answered.set)

    handle.future.add_done_callback(wake)
    await answered.wait()
