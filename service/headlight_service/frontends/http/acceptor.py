"""Acceptor of the HTTP frontend's connections.

asyncio's own server creates a connection before its TLS handshake, but reports it after: thousands
of silent clients would have descriptors and memory without being counted.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import resource
import socket
import ssl
from collections.abc import Callable

from headlight_service.frontends.http.connection import Connection
from headlight_service.frontends.http.open_connections import OpenConnections

log = logging.getLogger("headlight_service.frontends.http.acceptor")
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
