"""Mutated messages of every kind, sent to a service of their own: F14a."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
from google.rpc.status_pb2 import Status

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.grpc.grpc_status import DETAILS, LONGEST_DETAIL_CHARACTERS
from tests.chaos.findings import LEAKS, SECRET, Findings
from tests.chaos.mutations.of_protobuf import METHODS, mutated, seeds
from tests.chaos.record import Outcome
from tests.system.conftest import bundle_of
from tests.system.processes import Service

MESSAGES = 25_000
CALLERS = 32  # over four connections
PARTS = 50  # after each of which memory is looked at
FITTING = 0.8  # of the messages go to a method of their kind
ALLOWED = ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED")
IN_BAND = {code.value[0]: code.name for code in grpc.StatusCode}


class Fuzzer:
    """Callers of one service."""

    def __init__(self, target: str, found: Findings) -> None:
        self.in_band = Findings()  # single requests of streams
        self._target, self._found = target, found

    async def run(self, count: int, seed: str) -> None:
        """Send so many messages. The same seed sends the same ones."""
        async with asyncio.TaskGroup() as callers:
            for caller in range(CALLERS):
                chance = random.Random(f"{seed} {caller}")
                callers.create_task(self._call(chance, caller, max(1, count // CALLERS)))

    async def _call(self, chance: random.Random, caller: int, count: int) -> None:
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
            for _ in range(count):
                method = chance.choice(METHODS)
                fits = chance.random() < FITTING
                good = stream_seeds if (method == "EncodeStream") is fits else unary_seeds
                raw = mutated(chance.choice(good), chance)
                try:
                    if method == "EncodeStream":
                        answer = [frame async for frame in stream(iter([raw]), timeout=60)]
                    else:
                        answer = [await unary[method](raw, timeout=60)]
                except grpc.aio.AioRpcError as error:
                    self._refused(raw, error)
                else:
                    self._found.ends["OK"] += 1
                    self._found.search(raw, answer, (b"Traceback",))
                    if method == "EncodeStream":
                        self._framed(raw, answer)

    def _framed(self, raw: bytes, frames: list[bytes]) -> None:
        for frame in map(pb.EncodeStreamResponse.FromString, frames):
            if frame.HasField("error"):
                self.in_band.ends[IN_BAND[frame.error.code]] += 1
                self._found.search(raw, [frame.error.message.encode()], (*LEAKS, SECRET.encode()))

    def _refused(self, raw: bytes, error: grpc.aio.AioRpcError) -> None:
        code, message = error.code(), error.details() or ""
        self._found.ends[code.name] += 1
        metadata: Any = error.trailing_metadata()
        values = {
            key: value if isinstance(value, bytes) else value.encode() for key, value in metadata
        }
        answer = [message.encode(), *values.values()]
        self._found.search(raw, answer, (*LEAKS, SECRET.encode()))
        status = Status.FromString(values.get(DETAILS, b""))
        if (status.code, status.message) != (code.value[0], message[:LONGEST_DETAIL_CHARACTERS]):
            self._found.broken.append(f"{status!r:.200} are not the details of {raw.hex()}")


async def mutated_messages(times: float = 1.0, seed: int = 1) -> Outcome:
    """Send so many times the usual number of messages. The same seed sends the same ones."""
    found = Findings()
    with Service(bundle_of("docs-rope")) as service:
        fuzzer = Fuzzer(service.target, found)
        for part in range(PARTS):
            await fuzzer.run(int(times * MESSAGES / PARTS), f"{seed} {part}")
            found.sample(service)
    found.read_log(service)
    problems = found.problems() + found.unexpected(ALLOWED)
    problems += [f"in a stream: {each}" for each in fuzzer.in_band.unexpected(ALLOWED[1:])]
    if fuzzer.in_band.ends["INVALID_ARGUMENT"] <= found.ends.total() / 200:
        problems.append("hardly a request of a stream was refused by itself: too coarse")
    problems += found.unreached(1 / 50, ["OK"], ["INVALID_ARGUMENT"])
    return Outcome(f"{found.ends.total():,} messages: {found}", {"ends": found.ends}, problems)
