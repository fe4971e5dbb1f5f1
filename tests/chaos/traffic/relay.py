"""Connections that end abruptly.

A relay whose sockets can be reset, and a client process that can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from tests.system.processes import ROOT

PIECE = 1 << 16


class Relay:
    """Relay between a client and the service until it is cut. An async context manager.

    Attributes:
        target: host:port for the client.
    """

    def __init__(self, upstream: str) -> None:
        self.target = ""
        self._upstream = upstream
        self._writers: list[asyncio.StreamWriter] = []
        self._pipes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut_connections()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def cut_connections(self) -> None:
        """Reset both sides at once, and accept no more connections."""
        self._server.close()
        for pipe in self._pipes:
            pipe.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._upstream.rpartition(":")
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        self._writers += [writer, up_writer]
        for source, sink in ((reader, up_writer), (up_reader, writer)):
            self._pipes.add(asyncio.create_task(self._pipe(source, sink)))

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await source.read(PIECE):
                sink.write(piece)
                await sink.drain()
        sink.close()


@contextlib.asynccontextmanager
async def doomed_client(target: str) -> AsyncIterator[None]:
    """Run a client process in the middle of calls; killed with SIGKILL at the end of the block."""
    command = (sys.executable, "-m", "tests.chaos.traffic.doomed", target)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise RuntimeError("the client ended before it was killed")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
