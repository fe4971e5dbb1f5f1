"""Plain HTTP beside gRPC, for Prometheus and probes: one thread, few connections, a table of paths.

Silent connections must not keep probes out, so the oldest connection makes room for the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

from headlight_service.frontends.http.request_checks import FOREIGN_HOST, is_accepted
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.app.operational_http")


class Response(NamedTuple):
    """The response of a path."""

    status: str
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Response]]


def respond(pages: Pages, head: bytes, hosts: frozenset[str] | None = None) -> bytes:
    """Return the whole response to a request; the connection is closed after it.

    Args:
        pages: the pages, by their paths.
        head: head of the request, with the request line first.
        hosts: accepted Host names besides those of the loopback; None: any, for a listener that
            other machines reach.
    """
    first, *lines = [line.decode("latin-1") for line in head.splitlines()]
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _packed(text("400 Bad Request", "not HTTP/1"), with_body=True)
    method, target, _ = words
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "host" and not is_accepted(value.strip(), hosts):
            return _packed(
                text("421 Misdirected Request", FOREIGN_HOST), with_body=method != "HEAD"
            )
    return _packed(_answer(pages, method, _path(target)), with_body=method != "HEAD")


def _answer(pages: Pages, method: str, path: str) -> Response:
    page = pages.get(path)
    if page is None:
        return text("404 Not Found", f"not here; there is {', '.join(sorted(pages))}")
    if method not in ("GET", "HEAD"):
        return text("405 Method Not Allowed", "GET or HEAD only")
    try:
        return page()
    except Exception as error:
        log.error("a page failed", extra={"event": "page_failed", "path": path, **describe(error)})
        return text("500 Internal Server Error", "a bug; see the log of the service")


def _packed(response: Response, *, with_body: bool) -> bytes:
    fields = (
        f"HTTP/1.1 {response.status}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Connection: close",
    )
    return "\r\n".join((*fields, "", "")).encode() + (response.body if with_body else b"")


def _path(target: str) -> str:
    """Return the path of a request's target, which may be a whole URL."""
    try:
        path = urllib.parse.urlsplit(target).path
    except ValueError:
        return ""
    return urllib.parse.unquote(path)


def text(status: str, body: str) -> Response:
    """Return a plain-text response."""
    return Response(status, "text/plain; charset=utf-8", body.encode() + b"\n")


def service_pages(
    exposition: Callable[[], tuple[str, bytes]],
    serving: Callable[[], bool],
    stuck: Callable[[], bool],
    starting: Callable[[], str],
) -> Pages:
    """Return the service's paths.

    Args:
        exposition: returns content type and body of a scrape.
        serving: returns whether requests can be answered.
        stuck: returns whether there is work without progress.
        starting: returns the state of a start; empty: it is over.
    """
    return {
        "/metrics": lambda: Response("200 OK", *exposition()),
        "/livez": lambda: (
            text("503 Service Unavailable", "stuck") if stuck() else text("200 OK", "alive")
        ),
        "/readyz": lambda: (
            text("200 OK", "serving")
            if serving()
            else text("503 Service Unavailable", starting() or "not serving")
        ),
    }


BACKLOG = 1024  # connections in the kernel; a client beyond them retries after a second
MOST_CONNECTIONS = 256  # a scraper and a few probes need fewer; all others are unknown clients
SHARE_OF_DESCRIPTORS = 4  # and at most one in four; gRPC needs the others
CLIENT_SECONDS = 10.0  # for a client to send its request and take the response
HEAD_BYTES = 16384
PAUSE_SECONDS = 0.1  # if there is no descriptor for one more connection
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
NO_ROOM = (
    "no file descriptor is left for a connection; raise ulimit -n, or let fewer clients connect"
)
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n"


class Listener:
    """HTTP server for the life of the process, in a thread and an event loop of its own.

    Attributes:
        server_port: the port it listens on.
    """

    def __init__(self, bound: socket.socket, respond: Callable[[bytes], bytes]) -> None:
        """Start to listen.

        Args:
            bound: the socket to listen with.
            respond: returns the whole response for the head of a request; runs in the thread.
        """
        self._respond = respond
        self._listener = bound
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self.server_port: int = self._listener.getsockname()[1]
        self._most_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        unlimited = self._most_open == resource.RLIM_INFINITY
        share = MOST_CONNECTIONS if unlimited else max(1, self._most_open // SHARE_OF_DESCRIPTORS)
        self._most = min(MOST_CONNECTIONS, share)
        self._connections: dict[asyncio.Task[None], None] = {}  # the oldest first
        # A spare descriptor, to be closed for a connection that finds none.
        self._spare: BinaryIO | None = open(os.devnull, "rb")  # noqa: SIM115
        self._loop = asyncio.new_event_loop()
        self._loop.add_reader(self._listener, self._accept)
        threading.Thread(target=self._loop.run_forever, name="http", daemon=True).start()

    def _accept(self) -> None:
        """Accept one connection; called while any waits."""
        try:
            client, _ = self._listener.accept()
        except OSError as error:  # usually the client has disconnected
            if error.errno in NO_DESCRIPTOR and not self._make_room():
                self._loop.remove_reader(self._listener)
                self._loop.call_later(
                    PAUSE_SECONDS, self._loop.add_reader, self._listener, self._accept
                )
            return
        client.setblocking(False)
        connection = self._loop.create_task(self._converse(client))
        self._connections[connection] = None
        connection.add_done_callback(self._ended)
        if len(self._connections) > self._most:
            self._hang_up_on_oldest()

    async def _converse(self, client: socket.socket) -> None:
        """Read a request, send the response, and close. If cancelled, it closes at once."""
        head = response = b""
        with client, contextlib.suppress(OSError):  # the client has disconnected, or is late
            async with asyncio.timeout(CLIENT_SECONDS):
                while not response:
                    received = await self._loop.sock_recv(client, HEAD_BYTES)
                    head += received
                    if b"\r\n\r\n" in head or b"\n\n" in head:
                        response = self._respond(head)
                    elif len(head) >= HEAD_BYTES:
                        response = TOO_LARGE
                    elif not received:
                        return
                await self._loop.sock_sendall(client, response)

    def _ended(self, connection: asyncio.Task[None]) -> None:
        self._connections.pop(connection, None)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            log.error("a connection failed", extra={"event": "page_failed", **describe(error)})
        if self._spare is None and not self._connections:
            with contextlib.suppress(OSError):
                self._spare = open(os.devnull, "rb")  # noqa: SIM115  # see _make_room

    def _hang_up_on_oldest(self) -> None:
        oldest = next(iter(self._connections))
        del self._connections[oldest]
        oldest.cancel()

    def _make_room(self) -> bool:
        """Free the descriptor of the oldest connection, else the spare one. False: none is left."""
        log.warning(NO_ROOM, extra={"event": "descriptors_exhausted", "limit": self._most_open})
        if self._connections:
            self._hang_up_on_oldest()
        elif self._spare is not None:
            self._spare.close()
            self._spare = None
        else:
            return False
        return True
