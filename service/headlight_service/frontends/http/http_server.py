"""HTTP server: uvicorn on an event loop in a thread of its own, and its accepted connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable

from uvicorn import Config as UvicornConfig
from uvicorn import Server as UvicornServer

from headlight_service.frontends.http.connection import Connection
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.open_connections import OpenConnections
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.http.http_server")
HANDSHAKE_SECONDS = 5.0
PAUSE_SECONDS = 0.1  # if there is no descriptor for one more connection
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Accepts the connections of one listening socket; uvicorn closes it like asyncio's server."""

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[[], Connection],
        connections: OpenConnections,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Begin to accept, on the running event loop.

        Args:
            bound: a listening socket.
            make: makes the protocol of a connection.
            connections: counts them, from the moment at which they are accepted.
            tls: context of the connections; None: plaintext.
        """
        self._bound = bound
        self._make = make
        self._connections = connections
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        bound.setblocking(False)
        self._accepting = self._loop.create_task(self._accept(), name="accept")

    def close(self) -> None:
        """Accept no more."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Return once nothing is accepted."""
        await asyncio.wait([self._accepting])

    async def _accept(self) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._bound)
            except OSError as error:  # usually the client has disconnected
                if error.errno in NO_DESCRIPTOR:
                    log.warning(
                        "no file descriptor is left for a connection; raise ulimit -n",
                        extra={
                            "event": "descriptors_exhausted",
                            "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                        },
                    )
                    self._connections.close_one()
                await asyncio.sleep(PAUSE_SECONDS if error.errno in NO_DESCRIPTOR else 0)
                continue
            connection = self._make()
            opening = self._loop.create_task(self._open(client, connection))
            opening.add_done_callback(functools.partial(self._opened, client, connection))
            connection.opening = opening
            self._connections.add(connection)
            await asyncio.sleep(0)  # the others' turn: an accept need not wait

    async def _open(self, client: socket.socket, connection: Connection) -> None:
        """Let asyncio serve a connection; return after its TLS handshake."""
        await self._loop.connect_accepted_socket(
            lambda: connection,
            client,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_SECONDS,
        )

    def _opened(
        self, client: socket.socket, connection: Connection, opening: asyncio.Task[None]
    ) -> None:
        connection.opening = None
        if opening.cancelled() or opening.exception() is not None:  # no handshake, or a late one
            self._connections.remove(connection)
            client.close()


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
