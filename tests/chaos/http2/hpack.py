"""Writer of HPACK header blocks (RFC 7541), valid or not: all literal, so that it needs no state.

Names and values are bytes, as a library for valid HTTP/2 would refuse most that the tests send.
"""

from __future__ import annotations

from collections.abc import Iterable

Field = tuple[bytes, bytes]

# Forms of a literal: the first byte, before the length of the name. The first form adds the field
# to the peer's dynamic table.
INDEXED, NOT_INDEXED, NEVER_INDEXED = 0x40, 0x00, 0x10
TABLE_SIZE = 0x20  # the first byte of an update of the dynamic table's size
HUFFMAN = 0x80
STATIC_NAMES = {
    b":authority": 1,
    b":method": 2,
    b":path": 4,
    b":scheme": 6,
    b"content-type": 31,
    b"user-agent": 58,
}

POISON_PATH = b"/a.b/\x8e"
POISON_PATH_HUFFMAN = bytes.fromhex("606bc6c7ffff5f")  # the same, coded


def integer(value: int, prefix: int, first: int = 0) -> bytes:
    """Return an integer whose first byte has `prefix` bits for it, and `first` in the others."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    coded, value = bytearray([first | most]), value - most
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(coded) + bytes([value])


def string(text: bytes, huffman: bool = False) -> bytes:
    """Return a string; with `huffman` the text is declared to be coded, and has to be."""
    return integer(len(text), 7, HUFFMAN if huffman else 0) + text


def literal(name: bytes, value: bytes, form: int = NOT_INDEXED, static: bool = False) -> bytes:
    """Return a literal field.

    With `static` its name is an index of the static table, if it is one there.
    """
    if static and name in STATIC_NAMES:
        return integer(STATIC_NAMES[name], 6 if form == INDEXED else 4, form) + string(value)
    return bytes([form]) + string(name) + string(value)


def indexed(index: int) -> bytes:
    """Return a field of the static or dynamic table.

    Index 0 and those beyond the tables are invalid.
    """
    return integer(index, 7, 0x80)


def table_size(size: int) -> bytes:
    """Return an update of the dynamic table's size."""
    return integer(size, 5, TABLE_SIZE)


def block(fields: Iterable[Field]) -> bytes:
    """Return the block of fields, in the plainest form."""
    return b"".join(literal(name, value) for name, value in fields)


def request(path: bytes, more: Iterable[Field] = ()) -> list[Field]:
    """Return the header fields of a gRPC request."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"test"),
    ]
    return [*fields, (b"te", b"trailers"), (b"content-type", b"application/grpc"), *more]
