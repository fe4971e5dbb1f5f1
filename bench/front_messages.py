"""Messages of bench.front: requests of its load generator, and sizes of the answers."""

from __future__ import annotations

import random
from typing import NamedTuple

from headlight.pb import headlight_pb2 as pb

FLOOR = "bench.Floor"  # the bare server's service
WIDTH = 256  # of docs-rope's vectors
TOKENS = 12
SIZES = (1, 32, 256)  # texts of a message
CONCURRENT = {1: 32, 32: 32, 256: 8}  # messages in flight, by their texts
REPLY_BYTES = {size: size * (4 * WIDTH + 6) + 150 for size in SIZES}  # data, and the entry of each
WORDS = (
    "join",
    "two",
    "paths",
    "read",
    "file",
    "and",
    "decode",
    "json",
    "parse",
    "date",
    "from",
    "string",
    "return",
    "list",
)


class Workload(NamedTuple):
    """Messages of one kind, as unary calls or on open streams."""

    streamed: bool
    kind: str  # of input: "text" or "ids"
    size: int  # inputs of a message

    @property
    def name(self) -> str:
        return f"{'stream message' if self.streamed else 'unary call'}, {self.size} {self.kind}"


WORKLOADS = [
    Workload(streamed, kind, size)
    for streamed in (False, True)
    for kind in ("text", "ids")
    for size in SIZES
]


def inputs(kind: str, count: int) -> list[pb.Input]:
    """Return short texts of some 10 tokens, the same each time; or as many ids."""
    chosen = random.Random(0)
    if kind == "ids":
        return [
            pb.Input(ids=pb.TokenIds(ids=chosen.choices(range(5, 2000), k=TOKENS)))
            for _ in range(count)
        ]
    return [pb.Input(text=" ".join(chosen.choices(WORDS, k=TOKENS - 2))) for _ in range(count)]


def request(kind: str, count: int) -> pb.EncodeRequest:
    """Return a request for pooled vectors of so many inputs, as our client makes it."""
    return pb.EncodeRequest(
        inputs=inputs(kind, count), outputs=pb.Outputs(pooled=pb.PooledOutput())
    )
