"""Client side of one HTTP/2 connection: valid except for what a test makes it send."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections import Counter
from types import TracebackType

from tests.chaos.http2.frames import (
    ACK,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    settings,
)

# The dynamic table is off, so that the server sends every grpc-status literally.
START = PREFACE + bytes(settings({HEADER_TABLE_SIZE: 0}))
STATUS = re.compile(rb"grpc-status.(\d+)", re.DOTALL)
FRAME_HEAD = 9


class Connection:
    """One connection, whose frames are read until the server hangs up. An async context manager.

    Attributes:
        ended: the streams that the server has ended, by its trailers or a reset.
        statuses: how many trailers had which grpc-status; -1 if it cannot be read.
        answered: the streams of which a message came.
        headers: the bytes of all header blocks.
        reset: codes of RST_STREAM.
        goaway: the code of the last GOAWAY; None if there was none.
        hung_up: set once the server has closed the connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ended: set[int] = set()
        self.statuses: Counter[int] = Counter()
        self.answered: set[int] = set()
        self.headers = bytearray()
        self.reset: Counter[int] = Counter()
        self.goaway: int | None = None
        self.hung_up = asyncio.Event()
        self.writer = writer
        self._reader = reader
        self._half_closed = False
        self._moved = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reading.cancel()
        self.writer.transport.abort()
        await asyncio.gather(self._reading, return_exceptions=True)

    def half_close(self) -> None:
        """End sending, including acknowledgements of the server's frames."""
        self._half_closed = True
        self.writer.write_eof()

    async def until_ended(self, streams: int) -> None:
        """Wait until so many streams have ended, or the server has hung up."""
        async with self._moved:
            await self._moved.wait_for(lambda: len(self.ended) >= streams or self.hung_up.is_set())

    async def _read(self) -> None:
        # The server may end with any bytes; a failed reader counts as closed, too.
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await self._reader.readexactly(FRAME_HEAD)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._take(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
                async with self._moved:
                    self._moved.notify_all()
        self.hung_up.set()
        async with self._moved:
            self._moved.notify_all()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (SETTINGS, PING) and not flags & ACK:
            if self._half_closed:
                return
            self.writer.write(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == RST_STREAM:
            self.reset[int.from_bytes(payload, "big")] += 1
            self.ended.add(stream)
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == DATA:
            self.answered.add(stream)
        elif kind == HEADERS:
            self.headers += payload
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            found = STATUS.search(payload)
            self.statuses[int(found[1]) if found else -1] += 1
            self.ended.add(stream)


async def connect(target: str, context: ssl.SSLContext | None = None) -> Connection:
    """Return a connection to host:port. Nothing is sent yet."""
    host, _, port = target.rpartition(":")
    name = "localhost" if context else None
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=context, server_hostname=name
    )
    return Connection(reader, writer)
