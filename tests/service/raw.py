"""A hand-written HTTP/2 client with a closed window.

It sends requests, and accepts only as many bytes of an answer as a test allows.

No gRPC client can be made to do so; any program with a socket can.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from tests.chaos.http2 import hpack
from tests.chaos.http2.connection import Connection, connect
from tests.chaos.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PREFACE,
    frame,
    message,
    settings,
    window_update,
)


def headers(method: str, more: Mapping[str, str]) -> bytes:
    path = method if method.startswith("/") else f"/headlight.v1.HeadlightService/{method}"
    metadata = [(name.encode("ascii"), value.encode("ascii")) for name, value in more.items()]
    return hpack.block(hpack.request(path.encode("ascii"), metadata))


class ClosedWindow:
    """One connection.

    Attributes:
        hung_up: set once the server has closed it.
        name: how gRPC names this end.
    """

    def __init__(self, connection: Connection) -> None:
        self._writer, self.hung_up = connection.writer, connection.hung_up
        self._next = 1
        self.name = "ipv4:{}:{}".format(*self._writer.get_extra_info("sockname"))
        # The connection's window is wide open: what stalls are its streams alone.
        self._writer.write(
            PREFACE + bytes(settings({INITIAL_WINDOW_SIZE: 0})) + bytes(window_update(0, 1 << 30))
        )

    def ask(self, method: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Start a call with one message, by a method of the service or a whole path."""
        stream, self._next = self._next, self._next + 2
        self._writer.write(frame(HEADERS, END_HEADERS, stream, headers(method, metadata or {})))
        self._writer.write(frame(DATA, END_STREAM, stream, message(data)))

    def begin(self, method: str, size: int, sent: int) -> None:
        """Start a call with a message of which a part is never sent."""
        stream, self._next = self._next, self._next + 2
        self._writer.write(frame(HEADERS, END_HEADERS, stream, headers(method, {})))
        self._writer.write(frame(DATA, 0, stream, message(bytes(sent), length=size)))

    def make_room(self, size: int) -> None:
        """Accept so many bytes more of each answer."""
        for stream in range(1, self._next, 2):
            self._writer.write(bytes(window_update(stream, size)))


@contextlib.asynccontextmanager
async def closed_window(target: str) -> AsyncIterator[ClosedWindow]:
    """Yield a connection to host:port, closed at the end."""
    async with await connect(target) as connection:
        yield ClosedWindow(connection)
