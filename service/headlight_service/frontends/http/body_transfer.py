"""Transfer of bodies: requests within their limits, responses in pieces, each under a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.frontends.http.exchange import ClientGone, Exchange, ReaderStalled, Response
from headlight_service.frontends.http.http_status import Refused, refused
from headlight_service.frontends.stall_timeout import ReplyTimeout, allowance

Receive = Callable[[], Any]
Send = Callable[[Any], Any]
PIECE_BYTES = 64 << 10  # the transport holds so much of an unread response, and one piece more
# A body of at most so many bytes is not counted while it arrives: there are more connections than
# the largest of them could fill, but not by much.
SMALL_BODY_BYTES = 64 << 10
# After a refusal, so much more is read: if the connection were closed at once, the client could
# lose the response, which explains it.
LINGER_BYTES, LINGER_SECONDS = 16 << 20, 2.0
CLOSE = (b"connection", b"close")


class Peer(Protocol):
    """The connection of a request; `connection.Connection` is one.

    Attributes:
        lost: whether it has ended.
        flow: its flow control.
        current: uvicorn's state of the request.
        ends: time.monotonic() at which its age is reached; the next response closes it.
    """

    lost: bool
    ends: float
    flow: FlowControl
    current: RequestResponseCycle

    def serve(self, exchange: Exchange, cycle: RequestResponseCycle) -> None:
        """Notify a request when the client disconnects."""

    def served(self) -> None:
        """Record that the request has ended."""

    def certificate_names(self) -> list[str]:
        """Return the names of the client's certificate: alternative names, then common names."""

    def cut_reader(self) -> None:
        """Close the connection of a client that does not read its response."""


async def receive_body(exchange: Exchange, connection: Peer, receive: Receive) -> bytes:
    """Return the body of a request.

    Its bytes are taken from the model's admission while they arrive, like those of a request.

    Raises:
        Refused: it is too large, or did not arrive in time.
        Shed: too many bytes of requests are held.
        ClientGone: the client disconnected.
    """
    options = exchange.door.options
    most, stall_seconds = options.max_request_bytes, options.stall_seconds
    declared = int(exchange.headers.get("content-length", "0"))  # the parser has checked it
    if declared > most:
        raise _too_large(most)
    with contextlib.ExitStack() as held:
        body, begun, taken = bytearray(), time.monotonic(), 0
        while True:
            message = await _next(receive, connection, begun, len(body), stall_seconds)
            body += message["body"]
            if len(body) > most:
                raise _too_large(most)
            if not message["more_body"]:
                connection.flow.resume_reading()  # else a disconnect is not noticed
                return bytes(body)
            if not taken and max(declared, len(body)) > SMALL_BODY_BYTES:
                taken = declared or most
                admission = exchange.door.pipeline.models.first.admission
                budget = RequestBudget(admission, exchange.priority)
                budget.take_request(taken)
                held.callback(budget.close)


async def _next(
    receive: Receive, connection: Peer, begun: float, size: int, stall_seconds: float
) -> Any:
    """Return the next piece of a body. Raises Refused: it did not come in time."""
    if connection.current.more_body:
        left = begun + allowance(stall_seconds, size) - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                message = await receive()
        except TimeoutError:
            raise refused(
                408,
                f"the request did not arrive within {time.monotonic() - begun:.3g} s; "
                "send less at once, or ask for a longer --stall-seconds",
                headers=(("connection", "close"),),
            ) from None
    else:
        message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def _too_large(most: int) -> Refused:
    return refused(
        413,
        f"the body has more than {most} bytes; send fewer or shorter inputs per request, "
        "or raise --max-request-bytes",
    )


async def send_response(
    response: Response,
    connection: Peer,
    receive: Receive,
    send: Send,
    *,
    stall_seconds: float,
    close: bool,
) -> None:
    """Send a response; return once the transport has nearly all of it.

    Args:
        stall_seconds: for the client to read a piece of it.
        close: whether to close the connection afterwards.

    Raises:
        ClientGone: the client disconnected.
        ReaderStalled: it does not read; its connection is closed.
    """
    unread = connection.current.more_body
    body, headers = (
        response.body,
        [(name.encode(), value.encode("latin-1")) for name, value in response.headers],
    )
    if response.status != 204:  # which must not have it (RFC 9110, 8.6)
        headers.append((b"content-length", str(len(body)).encode()))
    if body:
        headers.append((b"content-type", response.content_type.encode()))
    if (unread or close) and CLOSE not in headers:
        headers.append(CLOSE)
    start = {"type": "http.response.start", "status": response.status, "headers": headers}
    timeout = ReplyTimeout(stall_seconds)
    # It waits as well, if earlier responses of the connection are not read.
    await _send_piece(start, 0, connection, send, timeout)
    if len(body) <= PIECE_BYTES and not unread:
        whole = {"type": "http.response.body", "body": body}
        await _send_piece(whole, len(body), connection, send, timeout)
        return
    for begin in range(0, len(body), PIECE_BYTES):
        piece = body[begin : begin + PIECE_BYTES]
        message = {"type": "http.response.body", "body": piece, "more_body": True}
        await _send_piece(message, len(piece), connection, send, timeout)
    if unread:
        await _linger(connection, receive)
    await _send_piece({"type": "http.response.body", "body": b""}, 0, connection, send, timeout)


async def _send_piece(
    message: Any, size: int, connection: Peer, send: Send, timeout: ReplyTimeout
) -> None:
    if not connection.flow.write_paused:
        await send(message)
        timeout.took(size, 0.0)
    else:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, timeout.remaining)):
                await send(message)
        except TimeoutError:
            connection.cut_reader()
            raise ReaderStalled from None
        timeout.took(size, time.monotonic() - begun)
    if connection.lost:
        raise ClientGone


async def _linger(connection: Peer, receive: Receive) -> None:
    """Read and drop the rest of a refused body, within limits."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while connection.current.more_body and size < LINGER_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size += len(message["body"])
