"""Queue of a stream's messages, from the thread that reads them to the event loop."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any


class Missing(enum.Enum):
    """The reason why a call has no message."""

    EMPTY = "the caller sent none"
    GONE = "the caller left before it came"
    LATE = "it did not come in time"
    UNREAD = "the call is refused without it"


class Messages(AsyncIterator[Any]):
    """The messages of a stream. Its thread reads one on request: the others wait at the client.

    Attributes:
        decode: returns the yielded value for the bytes of a message.
    """

    def __init__(self) -> None:
        self.decode: Callable[[bytes], Any] = bytes
        self._came = asyncio.Queue[bytes | None]()  # None: there are no more
        self._requests = threading.Semaphore(0)
        self._outstanding = False
        self._closed = False

    def put(self, message: bytes | None) -> None:
        """Add a message. On the loop."""
        self._came.put_nowait(message)

    async def __anext__(self) -> Any:
        if not self._outstanding:
            self._outstanding = True
            self._requests.release()
        message = await self._came.get()
        if message is None:
            self._came.put_nowait(None)  # for later calls
            raise StopAsyncIteration
        self._outstanding = False
        return self.decode(message)

    def close(self) -> None:
        """Let the reading thread end."""
        self._closed = True
        self._requests.release()

    def requested(self) -> bool:
        """Wait until one more message is requested; return False if none will be. On the thread."""
        self._requests.acquire()
        return not self._closed
