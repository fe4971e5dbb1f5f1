"""Mutated messages: no crash, no UNKNOWN, no INTERNAL, no text of the caller or of an exception comes back, memory stays flat.

Seeded, so that a failure can be had again: HEADLIGHT_FUZZ_SEED and HEADLIGHT_FUZZ_MESSAGES choose another run, or a longer one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import grpc
from google.rpc.status_pb2 import Status

from headlight.pb import headlight_pb2 as pb
from service.status import DETAILS, LONGEST_DETAIL_CHARACTERS
from tests.system.conftest import bundle_of
from tests.system.processes import Service

MESSAGES = int(os.environ.get("HEADLIGHT_FUZZ_MESSAGES", "100000"))
SEED = int(os.environ.get("HEADLIGHT_FUZZ_SEED", "1"))
CALLERS = 32  # over four connections
WARM_UP = 0.2  # of the messages; what stays allocated for good has been by then
FITTING = 0.8  # of the messages go to a method of their kind
GROWTH_BYTES = 32 << 20
SECRET = "zebra"
LEAKS = (SECRET.encode(), b"Traceback", b"Error(", b"Exception", b".py", b"site-packages", b"onnx", b"google.protobuf")
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
METHODS = ("Encode", "Encode", "Encode", "Tokenize", "GetModel", "EncodeStream")


def seeds() -> tuple[list[bytes], list[bytes]]:
    """Good messages of every kind, for unary methods and for streams; short, so that most of the time is spent on reading them."""
    inputs = [
        pb.Input(text=f"{SECRET} at dawn"),
        pb.Input(ids=pb.TokenIds(ids=[2, 50, 3], segments=[0])),
        pb.Input(pair=pb.TextPair(first="a", second=SECRET)),
    ]
    everything = pb.Outputs(
        pooled=pb.PooledOutput(),
        tokens=pb.TokensOutput(),
        attention=pb.AttentionOutput(layers=[0, -1]),
        hidden=pb.HiddenOutput(layers=[4]),
        token_info=pb.TokenInfoOutput(),
    )
    requests = [pb.EncodeRequest(inputs=[each]) for each in inputs]
    requests.append(
        pb.EncodeRequest(model="docs-rope", inputs=inputs[:2], outputs=everything, truncation=pb.TRUNCATION_CUT_END)
    )
    streamed = [pb.EncodeStreamRequest(id="a", encode=request) for request in requests]
    return [each.SerializeToString() for each in requests], [each.SerializeToString() for each in streamed]


def mutated(message: bytes, chance: random.Random) -> bytes:
    """One change, or up to four: a bit, a byte, a cut, a piece said twice, a piece of noise."""
    data = bytearray(message)
    for _ in range(min(chance.randint(1, 4), chance.randint(1, 4))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(data):
                data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del data[place : place + chance.randint(1, 8)]
            case 3:
                data[place:place] = data[place : place + chance.randint(1, 16)]
            case _:
                data[place:place] = chance.randbytes(chance.randint(1, 6))
    return bytes(data)


class Fuzzer:
    """Callers that share what was found."""

    def __init__(self, target: str, count: int, seed: int) -> None:
        self.codes: Counter[grpc.StatusCode] = Counter()
        self.in_band: Counter[int] = Counter()  # codes of single requests of a stream
        self.leaks: list[tuple[bytes, bytes]] = []
        self.wrong_details: list[tuple[bytes, bytes]] = []
        self._target = target
        self._count = count
        self._seed = seed

    async def run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for caller in range(CALLERS):
                callers.create_task(self._call(random.Random(f"{self._seed} {caller}"), caller))

    async def _call(self, chance: random.Random, caller: int) -> None:
        # Channels that differ in an option do not share a connection.
        options = [("headlight.connection", caller % 4)]
        async with grpc.aio.insecure_channel(self._target, options=options) as opened:
            channel: Any = opened  # whose stubs want serializers, which bytes need not
            unary = {name: channel.unary_unary(f"/headlight.v1.HeadlightService/{name}") for name in set(METHODS)}
            stream = channel.stream_stream("/headlight.v1.HeadlightService/EncodeStream")
            unary_seeds, stream_seeds = seeds()
            for _ in range(self._count // CALLERS):
                method = chance.choice(METHODS)
                good = stream_seeds if (method == "EncodeStream") is (chance.random() < FITTING) else unary_seeds
                raw = mutated(chance.choice(good), chance)
                try:
                    if method == "EncodeStream":
                        answer = [frame async for frame in stream(iter([raw]), timeout=60)]
                    else:
                        answer = [await unary[method](raw, timeout=60)]
                except grpc.aio.AioRpcError as error:
                    self._refused(raw, error)
                else:
                    self.codes[grpc.StatusCode.OK] += 1
                    self._search(raw, answer, (b"Traceback",))
                    if method == "EncodeStream":
                        self._framed(raw, answer)

    def _framed(self, raw: bytes, frames: list[bytes]) -> None:
        for frame in map(pb.EncodeStreamResponse.FromString, frames):
            if frame.HasField("error"):
                self.in_band[frame.error.code] += 1
                self._search(raw, [frame.error.message.encode()], LEAKS)

    def _refused(self, raw: bytes, error: grpc.aio.AioRpcError) -> None:
        self.codes[error.code()] += 1
        metadata: Any = error.trailing_metadata()
        values = {key: value if isinstance(value, bytes) else value.encode() for key, value in metadata}
        self._search(raw, [(error.details() or "").encode(), *values.values()], LEAKS)
        status = Status.FromString(values.get(DETAILS, b""))
        if (status.code, status.message) != (
            error.code().value[0],
            (error.details() or "")[:LONGEST_DETAIL_CHARACTERS],
        ):
            self.wrong_details.append((raw, status.SerializeToString()))

    def _search(self, raw: bytes, told: Iterable[bytes], leaks: tuple[bytes, ...]) -> None:
        self.leaks += [(raw, text) for text in told if any(leak in text for leak in leaks)]


async def test_mutated_messages() -> None:
    with Service(bundle_of("docs-rope")) as service:
        warm_up = Fuzzer(service.target, int(WARM_UP * MESSAGES), SEED)
        await warm_up.run()
        before = service.resident_bytes()
        fuzzer = Fuzzer(service.target, MESSAGES - int(WARM_UP * MESSAGES), SEED + 1)
        await fuzzer.run()
        after = service.resident_bytes()
        codes = warm_up.codes + fuzzer.codes
        assert set(codes) <= ALLOWED, codes
        assert min(codes[code] for code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)) > MESSAGES / 50
        in_band = warm_up.in_band + fuzzer.in_band
        assert set(in_band) <= {code.value[0] for code in ALLOWED - {grpc.StatusCode.OK}}, in_band
        assert in_band[grpc.StatusCode.INVALID_ARGUMENT.value[0]] > MESSAGES / 200
        assert warm_up.leaks + fuzzer.leaks == []
        assert warm_up.wrong_details + fuzzer.wrong_details == []
        assert after - before < GROWTH_BYTES
        assert [entry for entry in service.log if entry.get("level") in ("error", "critical")] == []
    assert SECRET not in str(service.log)
    print(dict(codes), dict(in_band), f"{before >> 20} -> {after >> 20} MiB")
