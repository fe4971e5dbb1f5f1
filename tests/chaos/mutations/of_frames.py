"""Mutations of the frames of a connection, and of its bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.chaos.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Frame,
)

Frames = list[Frame]

NUMBERS = (0, 1, 0x7F, 0xFF, 16_384, 16_385, (1 << 24) - 1)
STREAMS = (0, 1, 2, 3, 99, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
CODES = (0, 1, 7, 8, 11, 13, 99, (1 << 32) - 1)
STARTS = (
    b"",
    b"PRI",
    PREFACE[:-1] + b"x",
    PREFACE * 2,
    b"GET / HTTP/1.1\r\nhost: zebra\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
)


def _insert(frames: Frames, chance: random.Random, *some: Frame) -> None:
    at = chance.randrange(len(frames) + 1)
    frames[at:at] = some


def part_of_a_head(frames: Frames, chance: random.Random) -> None:
    chosen = chance.choice(frames)
    match chance.randrange(4):
        case 0:
            chosen.kind = chance.choice((*range(12), 0x7F, 0xFF))
        case 1:
            chosen.flags ^= 1 << chance.randrange(8)
        case 2:
            chosen.stream = chance.choice(STREAMS)
        case _:
            near = (len(chosen.payload) - 1, len(chosen.payload) + 1)
            chosen.length = max(0, chance.choice((*NUMBERS, *near)))


def a_payload_cut_short(frames: Frames, chance: random.Random) -> None:
    chosen = chance.choice(frames)
    chosen.payload = chosen.payload[: chance.randrange(len(chosen.payload) + 1)]


def a_frame_twice(frames: Frames, chance: random.Random) -> None:
    chosen = chance.choice(frames)
    _insert(frames, chance, *[chosen] * chance.choice((1, 1, 2, 30)))


def a_frame_missing(frames: Frames, chance: random.Random) -> None:
    frames.pop(chance.randrange(len(frames)))


def another_order(frames: Frames, chance: random.Random) -> None:
    chance.shuffle(frames)


def one_stream_for_all(frames: Frames, chance: random.Random) -> None:
    for each in frames:
        each.stream = 1


def an_open_end(frames: Frames, chance: random.Random) -> None:
    for each in frames:
        each.flags &= ~END_STREAM


def data_after_the_end(frames: Frames, chance: random.Random) -> None:
    stream = chance.choice(frames).stream
    frames += [
        Frame(
            chance.choice((DATA, HEADERS)),
            chance.choice((0, END_STREAM, END_HEADERS)),
            stream,
            b"\x00" * 9,
        )
    ]


def padding(frames: Frames, chance: random.Random) -> None:
    for each in frames:
        if each.kind in (DATA, HEADERS) and chance.random() < 0.5:
            size = chance.choice((0, 1, 200, 255))
            each.flags |= PADDED
            each.payload = bytes([size]) + each.payload + bytes(chance.choice((size, 0)))


def priority(frames: Frames, chance: random.Random) -> None:
    stream = chance.choice((0, 1, 3, 99))
    payload = struct.pack(">IB", chance.choice(STREAMS), 255)[: chance.choice((5, 5, 4, 0))]
    _insert(frames, chance, Frame(PRIORITY, 0, stream, payload))
    for each in frames:
        if each.kind == HEADERS and chance.random() < 0.3:
            each.flags |= HAS_PRIORITY  # without the five bytes that the flag declares


def window_updates(frames: Frames, chance: random.Random) -> None:
    size = struct.pack(">I", chance.choice((0, 1, (1 << 31) - 1, (1 << 32) - 1)))[
        : chance.choice((4, 4, 4, 3))
    ]
    update = Frame(WINDOW_UPDATE, 0, chance.choice((0, 1, 3, 99)), size)
    _insert(frames, chance, *[update] * chance.choice((1, 2, 300)))


def settings(frames: Frames, chance: random.Random) -> None:
    names = (
        HEADER_TABLE_SIZE,
        ENABLE_PUSH,
        MAX_CONCURRENT_STREAMS,
        INITIAL_WINDOW_SIZE,
        MAX_FRAME_SIZE,
        MAX_HEADER_LIST_SIZE,
        0,
        99,
    )
    values = (
        0,
        1,
        2,
        100,
        16_384,
        65_535,
        (1 << 24) - 1,
        1 << 24,
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
    )
    pairs = [
        struct.pack(">HI", chance.choice(names), chance.choice(values))
        for _ in range(chance.choice((1, 3, 100)))
    ]
    payload = b"".join(pairs)[: chance.choice((None, None, None, -1))]
    flags, stream = chance.choice((0, 0, 0, ACK)), chance.choice((0, 0, 0, 1))
    _insert(frames, chance, *[Frame(SETTINGS, flags, stream, payload)] * chance.choice((1, 1, 50)))


def continuations(frames: Frames, chance: random.Random) -> None:
    """Split a header block into frames: correctly, interrupted, or without an end."""
    at = next((place for place, each in enumerate(frames) if each.kind == HEADERS), None)
    if at is None:
        return
    first, size = frames[at], chance.choice((1, 7, 50))
    pieces = [
        first.payload[begin : begin + size] for begin in range(0, len(first.payload), size)
    ] or [b""]
    some = [Frame(HEADERS, first.flags & ~END_HEADERS, first.stream, pieces[0])]
    some += [Frame(CONTINUATION, 0, first.stream, piece) for piece in pieces[1:]]
    match chance.randrange(5):
        case 0:
            some[-1].flags |= END_HEADERS
        case 1:
            some[-1].flags |= END_HEADERS
            some.insert(1, Frame(PING, 0, 0, bytes(8)))
        case 2:
            some[1:1] = [Frame(CONTINUATION, 0, first.stream)] * 200
        case 3:
            some[-1].flags |= END_HEADERS
            some[-1].stream += 2
        case _:
            pass
    frames[at : at + 1] = some


def a_continuation_alone(frames: Frames, chance: random.Random) -> None:
    _insert(
        frames,
        chance,
        Frame(CONTINUATION, chance.choice((0, END_HEADERS)), chance.choice((0, 1, 99)), b"\x82"),
    )


def resets(frames: Frames, chance: random.Random) -> None:
    payload = struct.pack(">I", chance.choice(CODES))[: chance.choice((4, 4, 4, 3))]
    _insert(frames, chance, Frame(RST_STREAM, 0, chance.choice((0, 1, 1, 3, 99)), payload))


def rapid_resets(frames: Frames, chance: random.Random) -> None:
    """Start many calls and cancel each at once."""
    first = next((each for each in frames if each.kind == HEADERS), None)
    if first is None:
        return
    for stream in range(101, 101 + 2 * chance.choice((5, 50, 200)), 2):
        frames += [
            Frame(HEADERS, first.flags, stream, first.payload),
            Frame(RST_STREAM, 0, stream, struct.pack(">I", 8)),
        ]


def a_goaway(frames: Frames, chance: random.Random) -> None:
    payload = struct.pack(
        ">II", chance.choice(STREAMS), chance.choice(CODES)
    ) + b"zebra" * chance.choice((0, 1, 1000))
    _insert(frames, chance, Frame(GOAWAY, 0, chance.choice((0, 0, 1)), payload))


def pings(frames: Frames, chance: random.Random) -> None:
    ping = Frame(
        PING,
        chance.choice((0, 0, ACK)),
        chance.choice((0, 0, 1)),
        bytes(chance.choice((8, 8, 7, 0))),
    )
    _insert(frames, chance, *[ping] * chance.choice((1, 3, 200)))


def a_promise(frames: Frames, chance: random.Random) -> None:
    _insert(frames, chance, Frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + b"\x82"))


def a_large_frame(frames: Frames, chance: random.Random) -> None:
    kind = chance.choice((DATA, HEADERS, SETTINGS, 0x7F))
    _insert(
        frames,
        chance,
        Frame(kind, 0, chance.choice((0, 1)), bytes(chance.choice((16_385, 70_000)))),
    )


def noise(frames: Frames, chance: random.Random) -> None:
    some = [
        Frame(
            chance.randrange(256),
            chance.randrange(256),
            chance.choice(STREAMS),
            chance.randbytes(chance.randint(0, 60)),
        )
        for _ in range(chance.randint(1, 5))
    ]
    _insert(frames, chance, *some)


MUTATIONS: tuple[Callable[[Frames, random.Random], None], ...] = (
    part_of_a_head,
    part_of_a_head,
    a_payload_cut_short,
    a_frame_twice,
    a_frame_missing,
    another_order,
    one_stream_for_all,
    an_open_end,
    data_after_the_end,
    padding,
    priority,
    window_updates,
    settings,
    continuations,
    continuations,
    a_continuation_alone,
    resets,
    rapid_resets,
    a_goaway,
    pings,
    a_promise,
    a_large_frame,
    noise,
)


def of_bytes(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Return the bytes of a connection with one change, and the name of that."""
    match chance.randrange(3):
        case 0:
            flipped = bytearray(data)
            for _ in range(chance.randint(1, 8)):
                flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            return bytes(flipped), "bits of the connection"
        case 1:
            return data + chance.randbytes(chance.randint(1, 2000)), "noise at the end"
        case _:
            return chance.choice(STARTS) + data[len(PREFACE) :], "another start"
