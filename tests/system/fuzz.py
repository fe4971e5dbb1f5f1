"""Mutated messages, from good ones of every kind, sent to a service of their own; and what must not come of it."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from headlight.pb import headlight_pb2 as pb
from tests.soak.flat import MIB, Sample, flatness
from tests.system.processes import Service

CALLERS = 32  # over four connections
PARTS = 50  # after each of which memory is looked at
SECRET = "zebra"
LEAKS = (SECRET, "Traceback", "Error(", "Exception", ".py", "site-packages", "onnx", "google.protobuf")
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
METHODS = ("Encode", "Encode", "Encode", "Tokenize", "GetModel", "EncodeStream")


def seeds() -> list[bytes]:
    """Good messages of every kind, short, so that most of the time is spent on reading them."""
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
    return [message.SerializeToString() for message in (*requests, *streamed)]


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

    def __init__(self, target: str, count: int, seed: str) -> None:
        self.codes: Counter[grpc.StatusCode] = Counter()
        self.leaks: list[tuple[bytes, str]] = []
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
            good = seeds()
            for _ in range(self._count // CALLERS):
                method, raw = chance.choice(METHODS), mutated(chance.choice(good), chance)
                try:
                    if method == "EncodeStream":
                        answer = b"".join([frame async for frame in stream(iter([raw]), timeout=60)])
                    else:
                        answer = await unary[method](raw, timeout=60)
                except grpc.aio.AioRpcError as error:
                    self._refused(raw, error)
                else:
                    self.codes[grpc.StatusCode.OK] += 1
                    if b"Traceback" in answer:
                        self.leaks.append((raw, repr(answer)))

    def _refused(self, raw: bytes, error: grpc.aio.AioRpcError) -> None:
        self.codes[error.code()] += 1
        told = error.details() or ""
        if any(leak in told for leak in LEAKS):
            self.leaks.append((raw, told))


@dataclasses.dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of a run.

    Attributes:
        failures: entries of the service's log that it should not have.
    """

    codes: Counter[grpc.StatusCode]
    leaks: list[tuple[bytes, str]]
    memory: list[Sample]
    failures: list[dict[str, Any]]

    def problems(self) -> list[str]:
        """Everything that should not have been; empty: nothing."""
        sent = self.codes.total()
        found = [f"{count} calls ended as {code.name}" for code, count in self.codes.items() if code not in ALLOWED]
        for code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT):
            if self.codes[code] <= sent / 50:
                found.append(
                    f"{self.codes[code]} of {sent} calls ended as {code.name}: this fuzzing is too coarse or too fine"
                )
        found += [f"{told!r:.200} came back of {raw.hex()}" for raw, told in self.leaks[:5]]
        found += [f"the log has {entry}" for entry in self.failures[:5]]
        return found + flatness(self.memory).problems()

    def __str__(self) -> str:
        flat = flatness(self.memory)
        codes = ", ".join(f"{code.name} {count}" for code, count in self.codes.most_common())
        return f"{codes}; memory {flat.begin / MIB:.0f} -> {flat.end / MIB:.0f} MiB, at most {flat.peak / MIB:.0f}"


async def fuzz(bundle: Path, messages: int, seed: int) -> Fuzzed:
    """Send so many messages to a service of their own. The same seed sends the same ones."""
    codes, leaks, memory = Counter[grpc.StatusCode](), list[tuple[bytes, str]](), list[Sample]()
    with Service(bundle) as service:
        for part in range(PARTS):
            fuzzer = Fuzzer(service.target, messages // PARTS, f"{seed} {part}")
            await fuzzer.run()
            codes, leaks = codes + fuzzer.codes, leaks + fuzzer.leaks
            memory.append(Sample(time.monotonic(), service.resident_bytes()))
        failures = [entry for entry in service.log if entry.get("level") in ("error", "critical")]
    if SECRET in str(service.log):
        leaks.append((b"", "a caller's text, in the log"))
    return Fuzzed(codes, leaks, memory, failures)
