"""One HTTP connection: limits on its head and its silence, and what the door needs of it."""

from __future__ import annotations

import asyncio
import http
import logging
import random
import re
import time
from typing import Any, NamedTuple

from uvicorn.config import Config as UvicornConfig
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange

log = logging.getLogger("headlight_service.frontends.http.connection")
HEAD_BYTES, MOST_HEADERS = 16384, 100
# Java's client offers h2c with each request. The parser then drops the body, as of a connection
# that speaks another protocol from here on; RFC 9110 lets a server ignore the offer.
UPGRADE = b"upgrade:"
OFFER = re.compile(rb"(?<=\n)" + UPGRADE, re.IGNORECASE)
HEAD_END = b"\r\n\r\n"


class _Problem(NamedTuple):
    status: int
    message: str


MALFORMED = _Problem(400, "the request is not valid HTTP/1.1")
TWO_HOSTS = _Problem(400, "the request has two Host headers; send one")
LATE = _Problem(408, "the head of the request did not arrive in time; send it at once")
TOO_LARGE = _Problem(
    431, f"the head of the request has over {HEAD_BYTES} bytes or {MOST_HEADERS} headers; send less"
)


class HeadRefused(Exception):
    """The head of a request is refused; the parser stops."""


class Connection(HttpToolsProtocol):
    """A connection. uvicorn parses, and runs one request after the other.

    uvicorn itself waits for a first request forever, and limits no head.

    Attributes:
        door: the door that answers its requests.
        lost: whether it has ended.
        current: uvicorn's state of the request that is answered; `cycle` is of the last one.
        ends: time.monotonic() at which its age is reached; the next response closes it.
    """

    def __init__(
        self,
        config: UvicornConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config.app, Door)
        self.door = config.app
        self.lost = False
        # A tenth more or less, as gRPC has it: clients do not all come back at once.
        age = self.door.options.max_connection_age_seconds * random.uniform(0.9, 1.1)
        self.ends = time.monotonic() + age
        self.current: RequestResponseCycle
        self._exchange: Exchange | None = None
        self._busy = False  # from the end of a head to the end of its response
        self._in_head = False  # a request has begun, and its head is not complete
        self._head_bytes = 0
        self._parsed = self._withheld = b""  # of the head: its last bytes, and those not parsed yet
        self._problem = MALFORMED
        self._clock: asyncio.TimerHandle | None = None  # until a head is complete

    # The methods below are uvicorn's.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.door.idle[self] = None
        if len(self.connections) > self.door.options.most_connections:
            oldest = next(iter(self.door.idle))  # this one, if all are busy
            del self.door.idle[oldest]  # its end is reported later; the next one takes another
            oldest.transport.abort()
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.door.idle.pop(self, None)
        self._stop_clock()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._exchange is not None:
            self.current.disconnected = True
            self.current.message_event.set()
            self._exchange.disconnect()

    def data_received(self, data: bytes) -> None:
        if self._in_head or not self._busy:
            self._head_bytes += len(data)
            data = self._without_upgrade(data)
        super().data_received(data)
        if self._in_head or not self._busy:
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self._problem = TOO_LARGE
                self.send_400_response("")
            self._start_clock()
        else:
            self._stop_clock()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._size = 0
        self.scope["state"]["connection"] = self

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._measure(len(name) + len(value) + 4)
        if len(self.headers) > MOST_HEADERS:
            self._refuse(TOO_LARGE)

    def on_headers_complete(self) -> None:
        if sum(name == b"host" for name, _ in self.headers) > 1:
            self._refuse(TWO_HOSTS)
        self._in_head, self._head_bytes = False, 0
        self.door.idle.pop(self, None)
        super().on_headers_complete()
        self._busy = True
        self.scope["state"]["cycle"] = self.cycle

    def on_response_complete(self) -> None:
        self._busy = bool(self.pipeline)
        super().on_response_complete()  # it begins the next request
        if not self._busy and not self.lost:
            self.door.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, in the default dialect's form, and close."""
        if self.transport.is_closing():
            return
        status = self._problem.status
        self.door.count("http", "other", status)
        response = self.door.encode_error(*self._problem)
        lines = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
            f"content-type: {response.content_type}",
            f"content-length: {len(response.body)}",
            "connection: close",
            "",
            "",
        )
        # It must not be read as a part of another response, or as that of an earlier request.
        if not self._busy or (
            not self.pipeline and self.cycle.more_body and not self.cycle.response_started
        ):
            self.transport.write("\r\n".join(lines).encode() + response.body)
        if self._busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    # The methods below are for the door.

    def serve(self, exchange: Exchange, cycle: RequestResponseCycle) -> None:
        """Notify a request when the client disconnects."""
        self._exchange, self.current = exchange, cycle
        if self.lost:
            exchange.disconnect()

    def served(self) -> None:
        """Record that the request has ended."""
        self._exchange = None

    def certificate_names(self) -> list[str]:
        """Return the names of the client's certificate: alternative names, then common names."""
        tls = self.transport.get_extra_info("ssl_object")
        found = None if tls is None else tls.getpeercert()
        if not found:
            return []
        names = [value for _, value in found.get("subjectAltName", ())]
        subject = [pair for group in found.get("subject", ()) for pair in group]
        return names + [value for key, value in subject if key == "commonName"]

    def cut_reader(self) -> None:
        """Close the connection of a client that does not read its response."""
        request_id = "" if self._exchange is None else self._exchange.request_id
        log.warning(
            "an answer was not taken; its connection is closed",
            extra={"event": "reader_cut", "request_id": request_id},
        )
        self.transport.abort()

    def _measure(self, size: int) -> None:
        self._size += size
        if self._size > HEAD_BYTES:
            self._refuse(TOO_LARGE)

    def _refuse(self, problem: _Problem) -> None:
        """Stop the parser; `send_400_response` answers."""
        self._problem = problem
        raise HeadRefused

    def _without_upgrade(self, data: bytes) -> bytes:
        """Return the bytes of a head with the name of its Upgrade header changed.

        At the end of a piece, a part of the name waits for the next piece.
        """
        begin = len(self._parsed)
        head = self._parsed + self._withheld + data
        end = head.find(HEAD_END)
        head, rest = (head, b"") if end < 0 else (head[:end], head[end:])
        head, self._withheld = OFFER.sub(b"x-upgrade:", head), b""
        line = head.rfind(b"\n") + 1
        if end < 0 and line and UPGRADE.startswith(head[line:].lower()):
            head, self._withheld = head[:line], head[line:]
        self._parsed = b"" if rest else head[1 - len(HEAD_END) :]
        return (head + rest)[begin:]

    def _start_clock(self) -> None:
        if self._clock is None:
            seconds = self.door.options.stall_seconds
            self._clock = self.loop.call_later(seconds, self._late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late(self) -> None:
        """Close a silent connection; if a head has begun, with an answer."""
        if self._in_head:
            self._problem = LATE
            self.send_400_response("")
        else:
            self.transport.close()
