"""Listener of the operational HTTP: one thread, few connections, one request on each.

Silent connections must not keep probes out, so the oldest connection makes room for the newest.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable

from headlight_service.config.option_types import Address
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.app.http_listener")

BACKLOG = 1024  # connections in the kernel; a client beyond them tries again after a second
MOST_CONNECTIONS = 256  # beside a scraper and a few probes all are strangers
SHARE_OF_DESCRIPTORS = 4  # and at most one in four; gRPC needs the others
CLIENT_SECONDS = 10.0  # for a client to send its request and take the response
HEAD_BYTES = 16384
TICK_SECONDS = 0.5  # between two looks at the time
PAUSE_SECONDS = 0.1  # without a descriptor for one more connection
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
NO_ROOM = "no file descriptor is left for a connection; raise ulimit -n, or let fewer clients connect"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n"


class Connection:
    """A client's request as far as it has come, then the rest of its response.

    Attributes:
        deadline: by the monotonic clock, for all of it.
        awaited: the event that the selector waits for; 0: none yet.
    """

    def __init__(self, client: socket.socket, respond: Callable[[bytes], bytes]) -> None:
        self.client = client
        self.deadline = time.monotonic() + CLIENT_SECONDS
        self.awaited = 0
        self._respond = respond
        self._head = b""
        self._response = b""

    def proceed(self) -> int:
        """Read and write without waiting; returns the event to wait for next, 0 at the end."""
        try:
            if not self._response and not self._read():
                return selectors.EVENT_READ
            while self._response:
                self._response = self._response[self.client.send(self._response) :]
        except BlockingIOError:
            return selectors.EVENT_WRITE if self._response else selectors.EVENT_READ
        except OSError:  # the client has hung up
            pass
        return 0

    def _read(self) -> bool:
        """Whether reading is over: the response is there, or the client sends no more."""
        received = self.client.recv(HEAD_BYTES)
        self._head += received
        if b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self._response = self._respond(self._head)
        elif len(self._head) >= HEAD_BYTES:
            self._response = TOO_LARGE
        return bool(self._response) or not received


class Listener:
    """Serves in a daemon thread from the start.

    Attributes:
        server_port: where.
    """

    def __init__(self, address: Address, respond: Callable[[bytes], bytes]) -> None:
        """Listen.

        Args:
            address: a port of 0 takes any free one.
            respond: from the head of a request to the whole response; runs in the thread.

        Raises:
            OSError: the address is taken, or not of this machine.
        """
        self._respond = respond
        self._listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(tuple(address))
            self._listener.listen(BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self.server_port: int = self._listener.getsockname()[1]
        self._most_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        share = max(1, self._most_open // SHARE_OF_DESCRIPTORS)
        unlimited = self._most_open == resource.RLIM_INFINITY
        self._most = MOST_CONNECTIONS if unlimited else min(MOST_CONNECTIONS, share)
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._paused_until: float | None = None
        # Given up for a connection where there is no other descriptor.
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()

    def shutdown(self) -> None:
        """Stop serving; waits until it has."""
        self._stopped.set()
        self._thread.join()

    def server_close(self) -> None:
        """Close all sockets, after `shutdown`."""
        for connection in [*self._connections]:
            self._close(connection)
        self._selector.close()
        self._listener.close()
        if self._spare is not None:
            os.close(self._spare)

    def _serve(self) -> None:
        while not self._stopped.is_set():
            seconds = TICK_SECONDS if self._paused_until is None else PAUSE_SECONDS
            for key, _ in self._selector.select(seconds):
                try:
                    if key.data is None:
                        self._accept()
                    elif key.data in self._connections:  # not closed meanwhile to make room
                        self._proceed(key.data)
                except Exception as error:  # no memory, say; it concerns this connection alone
                    log.error("a connection failed", extra={"event": "page_failed", **describe(error)})
                    if key.data in self._connections:
                        self._close(key.data)
            self._tidy()

    def _accept(self) -> None:
        """Accept one connection. Without descriptors a further try fails even if there is none."""
        try:
            client = self._next() or self._next()
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # the listener would be reported again and again
                self._selector.unregister(self._listener)
                self._paused_until = time.monotonic() + PAUSE_SECONDS
            return  # else the client has hung up
        if client is None:
            return
        client.setblocking(False)
        connection = Connection(client, self._respond)
        self._connections[connection] = None
        self._proceed(connection)  # most often the request is there already
        if len(self._connections) > self._most:
            self._close(next(iter(self._connections)))

    def _next(self) -> socket.socket | None:
        """The next connection; None: there was no descriptor for it, and now there should be."""
        try:
            return self._listener.accept()[0]
        except OSError as error:
            if error.errno in NO_DESCRIPTOR and self._make_room():
                return None
            raise

    def _proceed(self, connection: Connection) -> None:
        event = connection.proceed()
        if not event:
            self._close(connection)
        elif not connection.awaited:
            self._selector.register(connection.client, event, connection)
        elif connection.awaited != event:
            self._selector.modify(connection.client, event, connection)
        connection.awaited = event

    def _make_room(self) -> bool:
        """Give up the descriptor of the oldest connection, else the spare one. False: no more."""
        log.warning(NO_ROOM, extra={"event": "descriptors_exhausted", "limit": self._most_open})
        if self._connections:
            self._close(next(iter(self._connections)))
            return True
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            return True
        return False

    def _close(self, connection: Connection) -> None:
        del self._connections[connection]
        if connection.awaited:
            self._selector.unregister(connection.client)
        connection.client.close()

    def _tidy(self) -> None:
        """Close late connections, take back the spare descriptor, accept again after a pause."""
        now = time.monotonic()
        while self._connections and (oldest := next(iter(self._connections))).deadline <= now:
            self._close(oldest)
        if self._spare is None and not self._connections:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)
