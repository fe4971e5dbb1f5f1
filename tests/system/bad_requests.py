"""Bad requests that no gRPC client would send, written byte by byte."""

from __future__ import annotations

import contextlib
import socket

from tests.chaos.http2 import hpack
from tests.chaos.http2.connection import START
from tests.chaos.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    frame,
    message,
)

SECRET = b"zebra"


def fields(**changed: bytes) -> bytes:
    """Return the headers of a call, with changes; `_method` is :method, a_b is a-b."""
    found = dict(hpack.request(b"/headlight.v1.HeadlightService/Encode"))
    for name, value in changed.items():
        field = ":" + name[1:] if name.startswith("_") else name.replace("_", "-")
        found[field.encode()] = value
    return hpack.block(found.items())


NOT_UTF8 = SECRET + b"\xff\xfe"
# Headers and body of one call each.
CALLS = {
    "token": (fields(authorization=b"Bearer " + NOT_UTF8), message(b"")),
    "key": (fields() + hpack.literal(NOT_UTF8, b"x"), message(b"")),
    "request id": (fields(x_request_id=NOT_UTF8), message(b"")),
    "trace": (fields(traceparent=NOT_UTF8, tracestate=NOT_UTF8), message(b"")),
    "timeout": (fields(grpc_timeout=SECRET), message(b"")),
    "method": (fields(_method=SECRET), message(b"")),
    "path": (fields(_path=b"/" + SECRET), message(b"")),
    "path bytes": (fields(_path=b"/" + NOT_UTF8 + b"/" + NOT_UTF8), message(b"")),
    "encoding": (fields(grpc_encoding=SECRET), message(SECRET, compressed=1)),
    "compressed": (fields(grpc_encoding=b"gzip"), message(SECRET, compressed=1)),
    "binary": (fields(zebra_bin=b"!" + SECRET), message(b"")),
    "type": (fields(content_type=NOT_UTF8), message(b"")),
    "undecodable": (fields(), message(NOT_UTF8)),
    "text": (fields(), message(b"\x12\x08\x0a\x06" + SECRET + b"\xff")),
}


def connection(headers: bytes, body: bytes, calls: int = 1) -> bytes:
    """Return all bytes that a client sends on its own connection."""
    asked = (
        frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, END_STREAM, stream, body)
        for stream in range(1, 2 * calls, 2)
    )
    return START + b"".join(asked)


# Not a call at all.
CONNECTIONS = {
    "noise": SECRET * 100,
    "HTTP/1": b"GET /" + SECRET + b" HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x00\x50" + SECRET * 16,
    "HPACK": START + frame(HEADERS, END_HEADERS, 1, b"\xff" * 20 + SECRET),
    "ping": START + frame(PING, 0, 0, SECRET),
    "goaway": START + frame(GOAWAY, 0, 0, bytes(8) + NOT_UTF8),
}


def send(target: str, content: bytes, seconds: float = 0.2) -> None:
    """Send on a new connection; wait until it is closed, or for a time."""
    host, _, port = target.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as client,
        contextlib.suppress(OSError),
    ):
        client.sendall(content)
        client.settimeout(seconds)
        while client.recv(1 << 16):
            pass
