"""Clients of both kinds, called as the blocking one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from headlight import AsyncClient, Client

SECONDS = 60  # for one call


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """The methods of a client of either kind, each executed to its end."""

    def __init__(self, client: Client | AsyncClient, loop: LoopThread) -> None:
        self.client: Any = client
        self._loop = loop

    def result(self, found: Any) -> Any:
        """Return the result of an awaitable, and anything else unchanged."""
        return self._loop.run(found) if inspect.isawaitable(found) else found

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if isinstance(self.client, Client):
            method: Callable[..., Any] = getattr(self.client, name)
            return method

        async def execute(*arguments: Any, **keywords: Any) -> Any:
            found = getattr(self.client, name)(*arguments, **keywords)
            return await found if inspect.isawaitable(found) else [each async for each in found]

        return lambda *arguments, **keywords: self._loop.run(execute(*arguments, **keywords))


def open_blocking(
    kind: type[Client | AsyncClient], loop: LoopThread, *args: Any, **named: Any
) -> Blocking:
    async def made() -> Client | AsyncClient:
        return kind(*args, **named)

    return Blocking(loop.run(made()), loop)
