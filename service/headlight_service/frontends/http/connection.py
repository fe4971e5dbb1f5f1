"""One HTTP connection: limits on its head and its silence, and what the door needs of it."""

from __future__ import annotations

import asyncio
import http
import logging
import random
import time
from typing import Any, NamedTuple

import httptools
from uvicorn.config import Config as UvicornConfig
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headlight_service.frontends.http.arriving_bodies import ArrivingBody, address_of
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange

log = logging.getLogger("headlight_service.frontends.http.connection")
HEAD_BYTES, MOST_HEADERS = 16384, 100


class _Problem(NamedTuple):
    status: int
    message: str


MALFORMED = _Problem(400, "the request is not valid HTTP/1.1")
CODED = _Problem(400, "Transfer-Encoding must be chunked, or absent")
LATE = _Problem(408, "the head of the request did not arrive in time; send it at once")
TOO_LARGE = _Problem(
    431, f"the head of the request has over {HEAD_BYTES} bytes or {MOST_HEADERS} headers; send less"
)
# Requests may be sent before earlier ones are answered, but so many of a connection, and of all
# together, with so many bytes of bodies of a connection. Who sends more is disconnected.
MOST_QUEUED, MOST_QUEUED_BY_ALL, QUEUED_BYTES = 64, 4096, 16384
FLOOD = _Problem(429, "too many requests wait on a connection")  # counted, and not sent
# Two of them would let two readers of a request see two requests.
SINGLE = {
    b"host",
    b"authorization",
    b"content-type",
    b"content-encoding",
    b"transfer-encoding",
    b"origin",
    b"sec-fetch-site",
}


class HeadRefused(Exception):
    """The head of a request is refused; the parser stops."""


class Connection(HttpToolsProtocol):
    """A connection. uvicorn parses, and runs one request after the other.

    uvicorn itself waits for a first request forever, and limits neither heads nor pipelining.

    Attributes:
        door: the door that answers its requests.
        opening: its TLS handshake; None: there is none any more.
        lost: whether it has ended.
        current: uvicorn's state of the request that is answered; `cycle` is of the last one.
        body: the bytes of that request that have arrived.
        address: the client's address, without its port.
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
        self.opening: asyncio.Task[None] | None = None
        self.lost = False
        # A tenth more or less, as gRPC has it: clients do not all come back at once.
        age = self.door.options.max_connection_age_seconds * random.uniform(0.9, 1.1)
        self.ends = time.monotonic() + age
        self.current: RequestResponseCycle
        self.body: ArrivingBody
        self.address = ""
        self._exchange: Exchange | None = None
        self._busy = False  # from the end of a head to the end of its response
        self._in_head = False  # a request has begun, and its head is not complete
        self._head_bytes = self._queued_bytes = 0
        self._problem: _Problem | None = None  # nothing behind it is parsed
        self._clock: asyncio.TimerHandle | None = None  # until a head is complete

    def abort(self) -> None:
        """Close the connection at once, even in its TLS handshake."""
        if self.opening is not None:
            self.opening.cancel()
        if self.transport is not None:
            self.transport.abort()

    # The methods below are uvicorn's.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_of(transport.get_extra_info("peername"))
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.door.connections.remove(self)
        self._forget_queue()
        self._stop_clock()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._exchange is not None:
            self.current.disconnected = True
            self.current.message_event.set()
            self._exchange.disconnect()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        for begin in range(0, len(data), HEAD_BYTES):  # the parser keeps the head that it is in
            if self._problem is not None or self.transport.is_closing():
                return
            piece = data[begin : begin + HEAD_BYTES]
            try:
                self._parse(piece)
            except httptools.HttpParserError:
                self.send_400_response("")
            if self._in_head:
                self._head_bytes += len(piece)
                if self._head_bytes > 2 * HEAD_BYTES:  # some of it may be of a body before
                    self._fail(TOO_LARGE)
        if self._problem is None:
            if self._in_head or not self._busy:
                self._start_clock()
            else:
                self._stop_clock()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._size = 0
        self.scope["state"]["connection"] = self
        if not self._busy:
            self.door.connections.spare(self)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value) + 4)
        if self._in_head:
            super().on_header(name, value)
            if len(self.headers) > MOST_HEADERS:
                self._refuse(TOO_LARGE)
        # Else it is a trailer, behind the body: whoever checked the head has not seen it.

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # `_parse` begins it once more
        self._check_head()
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()
        if self._busy:
            self.door.connections.queued += 1
            self.watch()
        else:
            self._begin(self.cycle)

    def on_body(self, body: bytes) -> None:
        if self.cycle is not self.current:
            self._queued_bytes += len(body)
            if self._queued_bytes > QUEUED_BYTES:
                self._refuse(FLOOD)
        elif not self.body.take(len(body)):  # it is not wanted
            if self.body.error is not None or self.body.endless:
                self.current.message_event.set()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._in_head:  # its offer of an upgrade ends it
            return
        super().on_message_complete()
        self._place()

    def on_response_complete(self) -> None:
        self._busy = False
        if self.transport.is_closing():  # requests behind it are not answered
            self._close()
            return
        if self.pipeline:
            self.door.connections.queued -= 1
            self._begin(self.pipeline[-1][0])
        super().on_response_complete()  # it begins the next request
        if self._busy:
            self.watch()
        elif self._problem is MALFORMED:  # no request, so it gets no answer that could be another's
            self._close()
        elif self._problem is not None:
            self._end_with(self._problem)
        else:
            self.door.connections.spare(self)

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._place()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._place()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request; uvicorn calls it when the parser stops."""
        if self._problem is None:
            self._fail(MALFORMED)

    # The methods below are for the door.

    def serve(self, exchange: Exchange) -> None:
        """Notify a request when the client disconnects."""
        self._exchange, exchange.release_body = exchange, self.body.release
        if self.lost:
            exchange.disconnect()

    def served(self) -> None:
        """Record that the request has ended."""
        self._exchange = None

    def watch(self) -> None:
        """Read on, so that a disconnect is noticed; but not if many further requests wait."""
        if len(self.pipeline) > MOST_QUEUED // 2:
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def linger(self) -> None:
        """Let the connection be closed before others: only the rest of a body is dropped."""
        self.door.connections.spare(self, first=True)

    def certificate_names(self) -> list[str]:
        """Return the names of the client's certificate: alternative names, then common names."""
        tls = self.transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert()
        if not certificate:
            return []
        names = [value for _, value in certificate.get("subjectAltName", ())]
        subject = [pair for group in certificate.get("subject", ()) for pair in group]
        return names + [value for key, value in subject if key == "commonName"]

    def cut_reader(self) -> None:
        """Close the connection of a client that does not read its response."""
        request_id = "" if self._exchange is None else self._exchange.request_id
        log.warning(
            "an answer was not taken; its connection is closed",
            extra={"event": "reader_cut", "request_id": request_id},
        )
        self.transport.abort()

    # The methods below are its own.

    def _parse(self, data: bytes) -> None:
        """Let the parser read data. Raises httptools.HttpParserError.

        Java's client offers h2c with each request. The parser then stops behind the head, as for a
        connection that speaks another protocol from here on. RFC 9110 (7.8) lets a server ignore
        the offer, so the head is read again without it.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                method, version = self.parser.get_method(), self.parser.get_http_version()
                if method == b"CONNECT":
                    self._fail(MALFORMED)
                    return
                head = [
                    b"%b %b HTTP/%b" % (method, self.url, version.encode()),
                    *(b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"),
                ]
                data = b"\r\n".join([*head, b"", data[offer.args[0] :]])
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _begin(self, cycle: RequestResponseCycle) -> None:
        """Let a request be the one that is answered: its body counts from now on."""
        self._busy, self.current = True, cycle
        self._queued_bytes -= len(cycle.body)
        self.body = self.door.arriving.body(self.address)
        if cycle.body and not self.body.take(len(cycle.body)):
            cycle.body = bytearray()
        self._place()

    def _place(self) -> None:
        """Count the connection as busy, or as one that can be closed for another."""
        connections = self.door.connections
        if self._busy and not (self.current.more_body or self.flow.write_paused):
            connections.keep(self)
        elif self._busy:
            connections.spare(self)

    def _check_head(self) -> None:
        """Check a complete head. Raises HeadRefused."""
        version, names = self.parser.get_http_version(), [name for name, _ in self.headers]
        if version not in ("1.0", "1.1"):
            self._refuse(MALFORMED)
        twice = next((name for name in names if name in SINGLE and names.count(name) > 1), None)
        if twice is not None:
            self._refuse(_Problem(400, f"the request has two {twice.decode()} headers; send one"))
        if b"transfer-encoding" in names:
            coding = dict(self.headers)[b"transfer-encoding"].strip().lower()
            if coding != b"chunked" or version == "1.0":
                self._refuse(CODED)
        if self._busy:
            full = self.door.connections.queued >= MOST_QUEUED_BY_ALL  # one of each still may
            if len(self.pipeline) >= (1 if full else MOST_QUEUED):
                self._refuse(FLOOD)

    def _measure(self, size: int) -> None:
        self._size += size
        if self._size > HEAD_BYTES:
            self._refuse(TOO_LARGE)

    def _refuse(self, problem: _Problem) -> None:
        """Stop the parser, which then calls `send_400_response`."""
        self._fail(problem)
        raise HeadRefused

    def _fail(self, problem: _Problem) -> None:
        """Parse nothing more; answer with a problem once the requests before it are answered."""
        if self.transport.is_closing():
            return
        self._problem = problem
        self._stop_clock()
        reading_body = self._busy and not self.pipeline and self.cycle.more_body  # in its body
        if not self._busy or (reading_body and not self.cycle.response_started):
            self._end_with(problem)
        elif problem is FLOOD:
            log.warning(
                "too many requests wait on a connection; it is closed",
                extra={"event": "pipelining_cut"},
            )
            self.door.count("http", "other", problem.status)
            self._close()
        elif reading_body:
            self._close()
        else:
            self.flow.pause_reading()

    def _end_with(self, problem: _Problem) -> None:
        """Answer with a problem, in the default dialect's form, and close."""
        self.door.count("http", "other", problem.status)
        response = self.door.encode_error(*problem)
        lines = (
            f"HTTP/1.1 {problem.status} {http.HTTPStatus(problem.status).phrase}",
            f"content-type: {response.content_type}",
            f"content-length: {len(response.body)}",
            "connection: close",
            "",
            "",
        )
        if not self.transport.is_closing():
            self.transport.write("\r\n".join(lines).encode() + response.body)
        self._close()

    def _close(self) -> None:
        """Close once all is sent that is written; a client that does not read it is cut later."""
        if self._busy:
            self._busy = False
            self.current.disconnected = True
            self.current.message_event.set()
            if self._exchange is not None:
                self._exchange.disconnect()
        self._forget_queue()
        self._stop_clock()
        self._unset_keepalive_if_required()
        self.door.connections.spare(self, first=True)
        self.transport.close()
        if not self.lost:
            seconds = self.door.options.stall_seconds
            self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _forget_queue(self) -> None:
        self.door.connections.queued -= len(self.pipeline)
        self.pipeline.clear()

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
        if self._in_head and self._problem is None:
            self._fail(LATE)
        else:
            self._close()
