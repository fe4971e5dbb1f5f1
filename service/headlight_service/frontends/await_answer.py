"""Waiting for a request of the core on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from headlight_service.core.handle import Handle

T = TypeVar("T")


async def done(handle: Handle[T]) -> None:
    """Wait until there is an answer, or an error: `handle.result()` waits no longer then."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle)

    handle.future.add_done_callback(wake)
    await waiter
