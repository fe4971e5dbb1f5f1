"""Transfer of bodies: requests within their limits, responses in pieces, each under a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headlight_service.frontends.http.exchange import ClientGone, Exchange, ReaderStalled, Response
from headlight_service.frontends.http.http_status import HttpError, http_error
from headlight_service.frontends.stall_timeout import ReplyTimeout, allowance

if TYPE_CHECKING:
    from headlight_service.frontends.http.connection import Connection

Receive = Callable[[], Any]
Send = Callable[[Any], Any]
PIECE_BYTES = 64 << 10  # the transport holds so much of an unread response, and one piece more
LINGER_SECONDS = 2.0  # for the rest of a refused body; see `arriving_bodies.LINGER_BYTES`
CLOSE = (b"connection", b"close")


async def receive_body(exchange: Exchange, connection: Connection, receive: Receive) -> bytes:
    """Return the body of a request. Its bytes are held until `connection.body` is released.

    Raises:
        HttpError: it is too large, or did not arrive in time.
        Shed: too many bytes of requests are held.
        Unavailable: the replica is shutting down.
        ClientGone: the client disconnected.
    """
    door = exchange.door
    most, stall_seconds = door.options.max_request_bytes, door.options.stall_seconds
    if int(exchange.headers.get("content-length", "0")) > most:  # the parser has checked it
        raise _too_large(most)
    body, begun = bytearray(), time.monotonic()
    while True:
        left = math.inf
        if connection.current.more_body:
            left = max(0.0, begun + allowance(stall_seconds, len(body)) - time.monotonic())
        message = await door.arrival(receive, left)
        if message is None:
            raise http_error(
                408,
                f"the request did not arrive within {time.monotonic() - begun:.3g} s; "
                "send less at once, or ask for a longer --stall-seconds",
                headers=(("connection", "close"),),
            )
        if message["type"] == "http.disconnect":
            raise ClientGone
        if connection.body.error is not None:
            raise connection.body.error
        body += message["body"]
        if len(body) > most:
            raise _too_large(most)
        if not message["more_body"]:
            connection.watch()
            return bytes(body)


def _too_large(most: int) -> HttpError:
    return http_error(
        413,
        f"the body has more than {most} bytes; send fewer or shorter inputs per request, "
        "or raise --max-request-bytes",
    )


async def send_response(
    response: Response,
    connection: Connection,
    receive: Receive,
    send: Send,
    *,
    stall_seconds: float,
    close: bool,
    linger: bool,
) -> None:
    """Send a response; return once the transport has nearly all of it.

    Args:
        stall_seconds: for the client to read a piece of it.
        close: whether to close the connection afterwards.
        linger: whether to read the rest of a body that was not wanted.

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
    if unread and linger:
        await _linger(connection, receive)
    await _send_piece({"type": "http.response.body", "body": b""}, 0, connection, send, timeout)


async def _send_piece(
    message: Any, size: int, connection: Connection, send: Send, timeout: ReplyTimeout
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


async def _linger(connection: Connection, receive: Receive) -> None:
    """Read and drop the rest of a refused body, within limits."""
    connection.linger()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while connection.current.more_body and not connection.body.endless:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
