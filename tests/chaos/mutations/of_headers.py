"""Mutations of header fields, and of their HPACK block."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.http2 import hpack
from tests.chaos.http2.hpack import Field

Fields = list[Field]

NOT_UTF_8 = (b"\x8e", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf")
NO_TEXT = (*NOT_UTF_8, b"\x00", b"\r\n", b"\n", b"\x7f", b" ", b"\t", "héron".encode())
PATHS = (
    hpack.POISON_PATH,
    b"",
    b"/",
    b"*",
    b"//",
    b"/\xff\xfe",
    b"headlight.v1.HeadlightService/Encode",
    b"/headlight.v1.HeadlightService/",
    b"/headlight.v1.HeadlightService/Encode/",
    b"/headlight.v1.HeadlightService/Encode?a=b",
    b"/headlight.v1.HeadlightService/Encode\x8e",
    b"/headlight.v1.HeadlightService\xc3/Encode",
    b"/headlight.v1.HeadlightService/%45ncode",
    b"/headlight.v1.HeadlightService/../Encode",
    b"/grpc.health.v1.Health/Watch\xff",
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    b"http://zebra/headlight.v1.HeadlightService/Encode",
    b"/" + b"x" * 5000,
)
TIMEOUTS = (
    b"",
    b"0n",
    b"1n",
    b"-1S",
    b"99999999H",
    b"999999999H",
    b"1",
    b"S",
    b"1X",
    b"1.5S",
    b" 1S",
    b"1S ",
    b"\xff",
)
ENCODINGS = (b"", b"gzip", b"deflate", b"snappy", b"identity", b"gzip,gzip", b"\xff", b"zebra")
BASE64 = (b"!!!!", b"abc", b"====", b"AA==AA==", b"\xff", b"", b"A" * 9000, b"__--")
OTHER_VALUES: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (
    (b":method", (b"", b"GET", b"PUT", b"post", b"CONNECT", b"\xff")),
    (b":scheme", (b"", b"https", b"ftp", b"\xff")),
    (b":authority", (b"", b"zebra\xff", b"a" * 9000, b"[::1")),
    (b":path", PATHS),
    (b":status", (b"200",)),
    (b":protocol", (b"websocket",)),
    (b"te", (b"", b"gzip", b"trailers, deflate", b"trailers\x8e")),
    (
        b"content-type",
        (
            b"",
            b"text/html",
            b"application/grpc+json",
            b"application/grpc\xff",
            b"application/grpcx",
        ),
    ),
    (b"content-length", (b"0", b"1", b"-1", b"99999999999999999999", b"\xff")),
    (b"grpc-timeout", TIMEOUTS),
    (b"grpc-encoding", ENCODINGS),
    (b"grpc-accept-encoding", ENCODINGS),
    (b"grpc-internal-encoding-request", ENCODINGS),
    (b"grpc-previous-rpc-attempts", (b"0", b"-1", b"99999999999", b"\xff")),
    (b"grpc-retry-pushback-ms", (b"0", b"\xff")),
    (b"grpc-status", (b"0", b"99", b"\xff")),
    (b"grpc-message", (b"zebra%", b"%ff", b"\xff")),
    (b"grpc-status-details-bin", BASE64),
    (b"grpc-trace-bin", BASE64),
    (b"grpc-tags-bin", BASE64),
    (b"zebra-bin", BASE64),
    (
        b"authorization",
        (
            b"",
            b"Bearer",
            b"Bearer zebra",
            b"Bearer \xff\xfe",
            b"Basic zebra",
            b"Bearer " + b"z" * 9000,
        ),
    ),
    (b"traceparent", (b"", b"00-zebra", b"\xff", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")),
    (b"user-agent", (b"", b"zebra\xff", b"\x00")),
    (b"connection", (b"close", b"upgrade")),
    (b"transfer-encoding", (b"chunked",)),
    (b"host", (b"zebra\xff",)),
)


def bytes_in_a_value(fields: Fields, chance: random.Random) -> None:
    at = chance.randrange(len(fields))
    name, value = fields[at]
    place = chance.randrange(len(value) + 1)
    fields[at] = (name, value[:place] + chance.choice(NO_TEXT) + value[place:])


def bytes_in_a_name(fields: Fields, chance: random.Random) -> None:
    at = chance.randrange(len(fields))
    name, value = fields[at]
    place = chance.randrange(len(name) + 1)
    fields[at] = (name[:place] + chance.choice(NO_TEXT) + name[place:], value)


def another_path(fields: Fields, chance: random.Random) -> None:
    path = chance.choice(PATHS)
    fields[:] = [(name, path if name == b":path" else value) for name, value in fields]


def another_value(fields: Fields, chance: random.Random) -> None:
    name, values = chance.choice(OTHER_VALUES)
    fields[:] = [field for field in fields if field[0] != name]
    fields.insert(0 if name.startswith(b":") else len(fields), (name, chance.choice(values)))


def a_field_twice(fields: Fields, chance: random.Random) -> None:
    fields.insert(chance.randrange(len(fields) + 1), chance.choice(fields))


def a_field_missing(fields: Fields, chance: random.Random) -> None:
    if len(fields) > 1:
        fields.pop(chance.randrange(len(fields)))


def another_order(fields: Fields, chance: random.Random) -> None:
    chance.shuffle(fields)


def an_uppercase_name(fields: Fields, chance: random.Random) -> None:
    at = chance.randrange(len(fields))
    fields[at] = (fields[at][0].upper(), fields[at][1])


def an_empty_name(fields: Fields, chance: random.Random) -> None:
    fields.append((chance.choice((b"", b":", b" ", b":zebra")), b"zebra"))


def many_fields(fields: Fields, chance: random.Random) -> None:
    size, count = chance.choice(((10, 300), (1000, 8), (1000, 40), (20_000, 1), (0, 2000)))
    fields += [(f"zebra-{number}".encode(), b"z" * size) for number in range(count)]


FIELDS: tuple[Callable[[Fields, random.Random], None], ...] = (
    bytes_in_a_value,
    bytes_in_a_value,
    bytes_in_a_name,
    another_path,
    another_value,
    another_value,
    another_value,
    a_field_twice,
    a_field_missing,
    another_order,
    an_uppercase_name,
    an_empty_name,
    many_fields,
)

# Fragments to insert into a block at any place, by kind.
PIECES: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    (
        "an index that is none",
        (b"\x80", hpack.indexed(62), hpack.indexed(200), hpack.indexed((1 << 31) - 1)),
    ),
    (
        "a literal whose name is no index",
        (hpack.integer(999, 6, hpack.INDEXED) + hpack.string(b"zebra"),),
    ),
    (
        "a table size",
        (hpack.table_size(0), hpack.table_size(4096), hpack.table_size((1 << 32) - 1)),
    ),
    ("many table sizes", (hpack.table_size(0) * 200,)),
    ("an integer without an end", (b"\xff" * 12, b"\x7f" + b"\xff" * 12, b"\x3f" + b"\x80" * 12)),
    (
        "a string beyond the end",
        (b"\x00\x7f\xff\xff\xff\x07zebra", b"\x40\x05zebra\x7f\x80\x80\x80\x80\x10"),
    ),
    (
        "wrong Huffman code",
        (
            b"\x00\x84\xff\xff\xff\xff\x01a",
            b"\x00\x01a\x82\x00\x00",
            b"\x00\x01a\x88" + b"\xff" * 8,
        ),
    ),
    ("a path in Huffman code", (b"\x04" + hpack.string(hpack.POISON_PATH_HUFFMAN, huffman=True),)),
)


def of_block(block: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Return a block with one change, and the name of that."""
    data, place = bytearray(block), chance.randrange(len(block) + 1)
    match chance.randrange(6):
        case 0 if place < len(data):
            data[place] ^= 1 << chance.randrange(8)
            return bytes(data), "a bit of the block"
        case 1:
            return block[:place], "a block cut short"
        case 2:
            return chance.randbytes(chance.randint(1, 200)), "a block of noise"
        case _:
            name, pieces = chance.choice(PIECES)
            place = chance.choice((0, place, len(block)))
            return block[:place] + chance.choice(pieces) + block[place:], name
