"""The HTTP server: uvicorn on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable

from uvicorn import Config as UvicornConfig
from uvicorn import Server as UvicornServer

from headlight_service.frontends.http.acceptor import Acceptor
from headlight_service.frontends.http.connection import Connection
from headlight_service.frontends.http.door import Door
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.http.http_server")
BACKLOG = 2048  # as uvicorn's
KEEP_ALIVE_SECONDS = 75  # of an idle connection after a response; pools of clients keep them less
START_SECONDS = 10.0
STOP_SECONDS = 5.0  # beyond the grace time
LOOK_SECONDS = 0.01


class HttpServer:
    """A server on one bound socket.

    Attributes:
        door: the application.
        port: the port it listens on.
    """

    def __init__(
        self,
        bound: socket.socket,
        door: Door,
        tls: ssl.SSLContext | None = None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing can connect before `start`.

        Args:
            bound: the socket to listen with.
            door: the application.
            tls: context of the connections; None: plaintext.
            on_lost: called on the server's thread if it ends by itself.
        """
        self.door = door
        self.port: int = bound.getsockname()[1]
        self._bound = bound
        self._on_lost = on_lost
        self._stopping = False
        self._ended = threading.Event()
        self._listening = threading.Event()
        self._server = _Server(
            UvicornConfig(
                door,
                interface="asgi3",
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",  # else a line for each bad request
                access_log=False,
                server_header=False,
                proxy_headers=False,  # else X-Forwarded-For is believed
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ),
            self._listening,
            tls,
        )

    def start(self) -> None:
        """Listen; return once clients can connect.

        Raises:
            OSError: EADDRINUSE, another process listens at the address since it was bound; or the
                server failed.
        """
        try:
            self._bound.listen(BACKLOG)
        except OSError:
            self._bound.close()
            raise
        threading.Thread(target=self._run, name="api", daemon=True).start()
        if not self._listening.wait(START_SECONDS) or self._ended.is_set():
            raise OSError("the HTTP frontend did not begin to listen; see the log")

    def drain(self) -> None:
        """Refuse new requests from here on, and those that still arrive. From any thread."""
        self.door.draining = True
        if self._server.loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._server.loop.call_soon_threadsafe(self.door.end_arrivals)

    async def stop(self, grace: float) -> int:
        """End the server. Return how many requests outlast the grace time. On any event loop."""
        self._stopping = True
        self.drain()
        until = time.monotonic() + grace
        # Requests in flight end first: uvicorn closes idle connections at once.
        while self.door.in_flight and time.monotonic() < until and not self._ended.is_set():
            await asyncio.sleep(LOOK_SECONDS)
        left = len(self.door.in_flight)
        self._server.config.timeout_graceful_shutdown = 1 if left == 0 else 0
        self._server.should_exit = True
        limit = time.monotonic() + STOP_SECONDS
        while not self._ended.is_set() and time.monotonic() < limit:
            await asyncio.sleep(LOOK_SECONDS)
        return left

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._bound]))
        except BaseException as error:
            log.critical(
                "the HTTP frontend failed", extra={"event": "rest_failed", **describe(error)}
            )
        finally:
            self._ended.set()
            self._listening.set()  # `start` waits no longer
            if not self._stopping:
                self._on_lost()


class _Server(UvicornServer):
    """uvicorn's server. It counts connections from the start, and reports that it listens.

    Attributes:
        loop: its event loop; None before it listens.
    """

    def __init__(
        self, config: UvicornConfig, listening: threading.Event, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._listens = listening
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own method counts no handshake, and leaves it 60 s."""
        self.loop = asyncio.get_running_loop()
        connections = self.config.app.connections  # type: ignore[union-attr]  # a Door
        self.servers = [
            Acceptor(  # type: ignore[misc]
                each, lambda: Connection(self.config, self.server_state, {}), connections, self._tls
            )
            for each in sockets or ()
        ]
        self.started = True
        self._listens.set()
