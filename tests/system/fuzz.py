"""Mutated messages of every kind, sent to a service of their own.

With the violations that must not occur.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
from google.rpc.status_pb2 import Status

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.grpc.grpc_status import DETAILS, LONGEST_DETAIL_CHARACTERS
from tests.soak.flat import MIB, Sample, flatness
from tests.system.processes import Service

CALLERS = 32  # over four connections
PARTS = 50  # after each of which memory is looked at
SECRET = "zebra"
FITTING = 0.8  # of the messages go to a method of their kind
LEAKS = (
    SECRET.encode(),
    b"Traceback",
    b"Error(",
    b"Exception",
    b".py",
    b"site-packages",
    b"onnx",
    b"google.protobuf",
)
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
METHODS = ("Encode", "Encode", "Encode", "Tokenize", "Occlude", "GetModel", "EncodeStream")


REDUCED = pb.AttentionOutput(
    reduce=[pb.REDUCTION_HEAD_MEAN, pb.REDUCTION_POOLING_WEIGHTS],
    unit=pb.UNIT_WORD,
    drop_special=True,
    top_k=2,
)
CHOSEN = pb.AttentionOutput(
    pairs=[pb.LayerHead(layer=-1, head=1)],
    queries=pb.TokenSelector(indices=pb.TokenIndices(indices=[1, -1])),
    keys=pb.TokenSelector(span=pb.TextSpan(start=0, end=4)),
    dtype=pb.DATA_TYPE_UINT8,
    max_bytes=1 << 20,
)
HIDDEN = pb.HiddenOutput(
    layer_runs=[pb.IndexRun(begin=-2)], tokens=pb.TokenSelector(named=pb.NAMED_TOKENS_SPECIAL)
)


def seeds() -> tuple[list[bytes], list[bytes]]:
    """Return valid messages of every kind, for unary methods and for streams.

    Short, so that most of the time is spent on decoding them.
    """
    inputs = [
        pb.Input(text=f"{SECRET} at dawn"),
        pb.Input(ids=pb.TokenIds(ids=[2, 50, 3], segments=[0])),
        pb.Input(pair=pb.TextPair(first="a", second=SECRET)),
    ]
    everything = pb.Outputs(
        pooled=pb.PooledOutput(),
        tokens=pb.TokensOutput(),
        attention=pb.AttentionOutput(layers=[0, -1]),
        hidden=pb.HiddenOutput(layers=[-1]),
        token_info=pb.TokenInfoOutput(),
    )
    requests = [pb.EncodeRequest(inputs=[each]) for each in inputs]
    requests.append(
        pb.EncodeRequest(
            model="docs-rope",
            inputs=inputs[:2],
            outputs=everything,
            truncation=pb.TRUNCATION_CUT_END,
        )
    )
    requests += [
        pb.EncodeRequest(
            inputs=inputs[:1], outputs=pb.Outputs(attention=form, hidden=HIDDEN), dry_run=dry
        )
        for form, dry in ((REDUCED, False), (CHOSEN, False), (CHOSEN, True))
    ]
    vectors = pb.Outputs(
        pooled=pb.PooledOutput(
            dimensions=8, normalize=False, dtypes=[pb.DATA_TYPE_FLOAT16, pb.DATA_TYPE_UBINARY]
        ),
        tokens=pb.TokensOutput(
            skip_special=True, skip_prompt=True, normalize=True, dtype=pb.DATA_TYPE_FLOAT16
        ),
    )
    requests.append(pb.EncodeRequest(inputs=inputs[:1], outputs=vectors, prompt_text=f"{SECRET}: "))
    streamed = [pb.EncodeStreamRequest(id="a", encode=request) for request in requests]
    return [each.SerializeToString() for each in requests], [
        each.SerializeToString() for each in streamed
    ]


def mutated(message: bytes, chance: random.Random) -> bytes:
    """Apply one to four changes: a bit, a byte, a cut, a repeated piece, a piece of noise."""
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
    """Callers that share their findings."""

    def __init__(self, target: str, count: int, seed: str) -> None:
        self.codes: Counter[grpc.StatusCode] = Counter()
        self.in_band: Counter[int] = Counter()  # codes of single requests of a stream
        self.leaks: list[tuple[bytes, bytes]] = []
        self.wrong_details: list[tuple[bytes, bytes]] = []
        self._target = target
        self._count = count
        self._seed = seed

    def add(self, other: Fuzzer) -> None:
        """Merge the findings of another."""
        self.codes += other.codes
        self.in_band += other.in_band
        self.leaks += other.leaks
        self.wrong_details += other.wrong_details

    async def run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for caller in range(CALLERS):
                callers.create_task(self._call(random.Random(f"{self._seed} {caller}"), caller))

    async def _call(self, chance: random.Random, caller: int) -> None:
        # Channels that differ in an option do not share a connection.
        options = [("headlight.connection", caller % 4)]
        async with grpc.aio.insecure_channel(self._target, options=options) as opened:
            channel: Any = opened  # whose stubs want serializers, which bytes need not
            unary = {
                name: channel.unary_unary(f"/headlight.v1.HeadlightService/{name}")
                for name in set(METHODS)
            }
            stream = channel.stream_stream("/headlight.v1.HeadlightService/EncodeStream")
            unary_seeds, stream_seeds = seeds()
            for _ in range(self._count // CALLERS):
                method = chance.choice(METHODS)
                good = (
                    stream_seeds
                    if (method == "EncodeStream") is (chance.random() < FITTING)
                    else unary_seeds
                )
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
        code, told = error.code(), error.details() or ""
        self.codes[code] += 1
        metadata: Any = error.trailing_metadata()
        values = {
            key: value if isinstance(value, bytes) else value.encode() for key, value in metadata
        }
        self._search(raw, [told.encode(), *values.values()], LEAKS)
        status = Status.FromString(values.get(DETAILS, b""))
        if (status.code, status.message) != (code.value[0], told[:LONGEST_DETAIL_CHARACTERS]):
            self.wrong_details.append((raw, status.SerializeToString()))

    def _search(self, raw: bytes, told: Iterable[bytes], leaks: tuple[bytes, ...]) -> None:
        self.leaks += [(raw, text) for text in told if any(leak in text for leak in leaks)]


@dataclasses.dataclass(frozen=True, slots=True)
class Fuzzed:
    """Result of a run.

    Attributes:
        failures: entries of the service's log that it should not have.
    """

    codes: Counter[grpc.StatusCode]
    in_band: Counter[int]  # codes of single requests of a stream
    leaks: list[tuple[bytes, bytes]]
    wrong_details: list[tuple[bytes, bytes]]
    memory: list[Sample]
    failures: list[dict[str, Any]]

    def problems(self) -> list[str]:
        """Return all violations; empty: none."""
        sent = self.codes.total()
        found = [
            f"{count} calls ended as {code.name}"
            for code, count in self.codes.items()
            if code not in ALLOWED
        ]
        allowed = {code.value[0] for code in ALLOWED - {grpc.StatusCode.OK}}
        found += [
            f"{count} requests of streams ended as {code}"
            for code, count in self.in_band.items()
            if code not in allowed
        ]
        if self.in_band[grpc.StatusCode.INVALID_ARGUMENT.value[0]] <= sent / 200:
            found.append(
                "hardly a request of a stream was refused by itself: "
                "this fuzzing does not reach them"
            )
        for code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT):
            if self.codes[code] <= sent / 50:
                found.append(
                    f"{self.codes[code]} of {sent} calls ended as {code.name}: "
                    "this fuzzing is too coarse or too fine"
                )
        found += [f"{told!r:.200} came back of {raw.hex()}" for raw, told in self.leaks[:5]]
        found += [
            f"{details!r:.200} are not the details of {raw.hex()}"
            for raw, details in self.wrong_details[:5]
        ]
        found += [f"the log has {entry}" for entry in self.failures[:5]]
        return found + flatness(self.memory).problems()

    def __str__(self) -> str:
        flat = flatness(self.memory)
        codes = ", ".join(f"{code.name} {count}" for code, count in self.codes.most_common())
        return (
            f"{codes}; memory {flat.begin / MIB:.0f} -> {flat.end / MIB:.0f} MiB, "
            f"at most {flat.peak / MIB:.0f}"
        )


async def fuzz(bundle: Path, messages: int, seed: int) -> Fuzzed:
    """Send so many messages to a service of their own. The same seed sends the same ones."""
    total, memory = Fuzzer("", 0, ""), list[Sample]()
    with Service(bundle) as service:
        for part in range(PARTS):
            fuzzer = Fuzzer(service.target, messages // PARTS, f"{seed} {part}")
            await fuzzer.run()
            total.add(fuzzer)
            memory.append(Sample(time.monotonic(), service.resident_bytes()))
    failures = [entry for entry in service.log if entry.get("level") in ("error", "critical")]
    if SECRET in str(service.log):
        total.leaks.append((b"", b"a caller's text, in the log"))
    return Fuzzed(total.codes, total.in_band, total.leaks, total.wrong_details, memory, failures)
