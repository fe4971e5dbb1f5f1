"""Scripts of the fuzzer's connections: valid calls with random mutations.

The same seed gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import gzip
import random
from collections.abc import Callable, Sequence
from typing import Any

from grpc_health.v1 import health_pb2

from headlight.pb import headlight_pb2 as pb
from tests.chaos.findings import SECRET
from tests.chaos.http2 import hpack
from tests.chaos.http2.connection import START
from tests.chaos.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    PREFACE,
    Frame,
    message,
    settings,
    window_update,
)
from tests.chaos.mutations import of_frames, of_headers, of_messages

TOKEN = f"the-token-of-a-{SECRET}"
MOST_BYTES = 256 << 10
LAYERS = ("fields", "block", "message", "frames", "bytes")
ENDINGS = (*["linger"] * 4, "half close", "leave", "reset", "cut")


@dataclasses.dataclass(frozen=True, slots=True)
class Script:
    """One connection.

    Attributes:
        data: all bytes to send.
        streams: how many calls it starts, if they arrive as such.
        ending: one of ENDINGS; "cut" sends a part of the data and resets.
        seconds: the time for answers.
        changed: the names of its mutations.
    """

    data: bytes
    streams: int
    ending: str
    seconds: float
    changed: tuple[str, ...]


def script(seed: int) -> Script:
    """Return what the connection of this seed sends."""
    chance = random.Random(seed)
    layers = chance.choices(
        LAYERS, (30, 15, 10, 40, 5), k=min(chance.randint(1, 3), chance.randint(1, 3))
    )
    changed: list[str] = []
    frames, streams = _calls(chance, layers, changed)
    for _ in range(layers.count("frames")):
        changed.append(_apply(of_frames.MUTATIONS, frames, chance))
    data = _start(chance) + b"".join(map(bytes, frames))
    for _ in range(layers.count("bytes")):
        data, name = of_frames.of_bytes(data, chance)
        changed.append(name)
    data, ending = data[:MOST_BYTES], chance.choice(ENDINGS)
    if ending == "cut":
        data = data[: chance.randrange(len(data) + 1)]
    return Script(data, streams, ending, chance.choice((0.02, 0.1, 0.3)), tuple(changed))


def _apply(
    mutations: Sequence[Callable[[list[Any], random.Random], None]],
    things: list[Any],
    chance: random.Random,
) -> str:
    """Apply one mutation, if any applies; return its name."""
    mutation = chance.choice(mutations)
    if things:
        mutation(things, chance)
    return mutation.__name__.replace("_", " ")


def _start(chance: random.Random) -> bytes:
    match chance.randrange(4):
        case 0:
            return PREFACE + bytes(settings({}))
        case 1:
            values = {
                INITIAL_WINDOW_SIZE: chance.choice((0, 1, 65_535, 1 << 30)),
                MAX_CONCURRENT_STREAMS: 10,
            }
            return PREFACE + bytes(settings(values)) + bytes(window_update(0, 1 << 20))
        case _:
            return START


def _calls(
    chance: random.Random, layers: Sequence[str], changed: list[str]
) -> tuple[list[Frame], int]:
    """Return the frames of one to three concurrent calls,
    some of them mutated before they became frames.
    """
    count = min(chance.randint(1, 3), chance.randint(1, 3))
    streams = [
        _call(2 * number + 1, chance, layers if number == 0 else (), changed)
        for number in range(count)
    ]
    frames: list[Frame] = []
    while any(streams):
        frames.append(chance.choice([stream for stream in streams if stream]).pop(0))
    return frames, count


def _call(
    stream: int, chance: random.Random, layers: Sequence[str], changed: list[str]
) -> list[Frame]:
    path, messages = _kind(chance)
    fields = hpack.request(path, _metadata(chance))
    sent = [_packed(data, fields, chance) for data in messages]
    for _ in range(layers.count("fields")):
        changed.append(_apply(of_headers.FIELDS, fields, chance))
    block = b"".join(_literal(*field, chance) for field in fields)
    for _ in range(layers.count("block")):
        block, name = of_headers.of_block(block, chance)
        changed.append(name)
    for _ in range(layers.count("message")):
        changed.append(_apply(of_messages.MUTATIONS, sent, chance))
    payloads = _pieces(b"".join(sent), chance)
    frames = [
        Frame(HEADERS, END_HEADERS, stream, block),
        *(Frame(DATA, 0, stream, piece) for piece in payloads),
    ]
    frames[-1].flags |= END_STREAM
    return frames


def _kind(chance: random.Random) -> tuple[bytes, list[bytes]]:
    """Return a path and the messages to send there."""
    encode = pb.EncodeRequest(inputs=[pb.Input(text=f"{SECRET} at dawn")])
    tokenize = pb.TokenizeRequest(inputs=[pb.Input(text=SECRET)])
    streamed = [
        pb.EncodeStreamRequest(id=str(n), encode=encode) for n in range(chance.randint(1, 3))
    ]
    health = health_pb2.HealthCheckRequest(service=chance.choice(("", "readiness", SECRET)))
    service, health_service = "/headlight.v1.HeadlightService", "/grpc.health.v1.Health"
    path, requests = chance.choice(
        (
            (f"{service}/Encode", [encode]),
            (f"{service}/EncodeStream", streamed),
            (f"{service}/GetModel", [pb.GetModelRequest()]),
            (f"{service}/Tokenize", [tokenize]),
            (f"{health_service}/Check", [health]),
            (f"{health_service}/Watch", [health]),
            (f"/{SECRET}.v1/{SECRET}", [encode]),
        )
    )
    return path.encode(), [request.SerializeToString() for request in requests]


def _metadata(chance: random.Random) -> list[hpack.Field]:
    """Return valid metadata, some of it; most calls bring the token."""
    some = (
        (0.9, (b"authorization", f"Bearer {TOKEN}".encode())),
        (0.5, (b"grpc-timeout", chance.choice((b"10S", b"5000m", b"50m")))),
        (0.3, (b"grpc-accept-encoding", b"identity,deflate,gzip")),
        (0.3, (b"user-agent", f"{SECRET}/1".encode())),
        (0.2, (b"x-trace-bin", b"AAECAw==")),
        (0.2, (b"grpc-encoding", b"gzip")),
    )
    return [field for share, field in some if chance.random() < share]


def _packed(data: bytes, fields: Sequence[hpack.Field], chance: random.Random) -> bytes:
    if (b"grpc-encoding", b"gzip") in fields and chance.random() < 0.8:
        return message(gzip.compress(data, mtime=0), compressed=1)
    return message(data)


def _literal(name: bytes, value: bytes, chance: random.Random) -> bytes:
    form = chance.choice((hpack.INDEXED, hpack.NOT_INDEXED, hpack.NEVER_INDEXED))
    return hpack.literal(name, value, form, static=chance.random() < 0.5)


def _pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """Return the data in one to four pieces, some of them empty."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 3))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
