"""Writer of HTTP/2 frames, valid or not."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

ACK, END_STREAM, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 1, 2, 3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 4, 5, 6


@dataclasses.dataclass(slots=True)
class Frame:
    """One frame.

    Attributes:
        length: the length to declare; None: that of the payload.
    """

    kind: int
    flags: int
    stream: int
    payload: bytes = b""
    length: int | None = None

    def __bytes__(self) -> bytes:
        length = len(self.payload) if self.length is None else self.length
        return (
            struct.pack(">I", length)[1:]
            + struct.pack(">BBI", self.kind, self.flags, self.stream)
            + self.payload
        )


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a valid frame."""
    return bytes(Frame(kind, flags, stream, payload))


def settings(values: Mapping[int, int]) -> Frame:
    """Return a SETTINGS frame."""
    return Frame(
        SETTINGS, 0, 0, b"".join(struct.pack(">HI", name, value) for name, value in values.items())
    )


def window_update(stream: int, size: int) -> Frame:
    """Return a WINDOW_UPDATE frame; stream 0 is the connection."""
    return Frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def message(data: bytes, compressed: int = 0, length: int | None = None) -> bytes:
    """Return a gRPC message with its prefix.

    Args:
        data: the serialised message.
        compressed: the first byte of the prefix; valid are 0 and 1.
        length: the length to declare; None: that of the data.
    """
    return struct.pack(">BI", compressed, len(data) if length is None else length) + data
