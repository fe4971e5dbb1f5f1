"""Mutated requests to the HTTP frontend and to the public contracts over gRPC.

They go to a service of their own, and hostile shapes of traffic beside them: pipelined floods,
lists of lists, bodies that never end, lingering connections, trailers, silent TLS handshakes.
`Doors.problems` lists the violations that must not occur, of answers and of costs.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from headlight_service.frontends.grpc.tei import tei_messages as tei
from headlight_service.frontends.oip import inference_messages as oip
from tests.certificates import Authority
from tests.service.frontends.oip.inference_calls import of_ids, of_texts
from tests.soak.flat import MIB, Sample, flatness
from tests.system import hostile
from tests.system.fuzz import LEAKS, PARTS, SECRET, mutated
from tests.system.processes import Service

CALLERS = 20
STALL_SECONDS = 1.0  # of the service: mutated lengths promise bodies that never come
ANSWER_SECONDS = 60.0
MUTATED_HEADS = 0.05  # share of requests whose head is mutated too: they may take STALL_SECONDS
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
MODEL = "docs-rope"
ROUNDS = range(0, PARTS // 3, 2)  # parts with a hostile round: memory is judged flat after them
FLOOD_BYTES, HELD, HELD_SECONDS, SHAKING = 1 << 20, 40, 0.3, 100  # of one hostile round
# What all of it may cost a service, and a neighbour on a machine that is busy with the fuzzing.
MOST_MEMORY, MOST_DESCRIPTORS, MOST_SECONDS = 384 * MIB, 400, 10.0
TRAILERS = ("X-Request-Timeout: 0", "Host: evil", "Content-Encoding: gzip", f"A: {'b' * 999}")
ALLOWED_HTTP = {200, 400, 404, 405, 408, 411, 413, 415, 421, 422, 424, 429, 431, 501}
ALLOWED_GRPC = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
ATTENTION = {"layers": [-1], "reduce": ["REDUCTION_HEAD_MEAN"], "top_k": 2}
BODIES: list[tuple[str, Any]] = [
    ("/v1/embeddings", {"input": [SECRET, "a b"], "dimensions": 8, "encoding_format": "base64"}),
    ("/v1/embeddings", {"input": SECRET, "model": MODEL, "user": "u"}),
    ("/v1/encode", {"inputs": [{"text": SECRET}], "outputs": {"pooled": {}, "token_info": {}}}),
    ("/v1/encode", {"inputs": [{"text": "a"}], "outputs": {"attention": ATTENTION}}),
    ("/v1/occlude", {"input": {"text": f"{SECRET} at dawn"}}),
    ("/embed", {"inputs": [SECRET, "a b"], "truncate": True, "normalize": False}),
    ("/embed_all", {"inputs": SECRET, "truncation_direction": "Left"}),
    ("/similarity", {"inputs": {"source_sentence": SECRET, "sentences": ["a", "b"]}}),
    ("/tokenize", {"inputs": SECRET, "add_special_tokens": False}),
    ("/vectors", {"text": SECRET, "config": {"pooling_strategy": "masked_mean"}}),
]
MESSAGES: list[tuple[str, Any]] = [
    ("/inference.GRPCInferenceService/ModelInfer", of_texts(SECRET, "a b", model=MODEL)),
    (
        "/inference.GRPCInferenceService/ModelInfer",
        of_texts(SECRET, model=f"{MODEL}.attention", attention_layers="0,-1", attention_heads=1),
    ),
    (
        "/inference.GRPCInferenceService/ModelInfer",
        of_ids([[5, 6, 7], [8]], model=f"{MODEL}.tokens", normalize=True),
    ),
    ("/inference.GRPCInferenceService/ModelMetadata", oip.ModelMetadataRequest(name=MODEL)),
    ("/tei.v1.Embed/Embed", tei.EmbedRequest(inputs=SECRET, truncate=True, dimensions=8)),
    ("/tei.v1.Embed/EmbedAll", tei.EmbedAllRequest(inputs=SECRET)),
    ("/tei.v1.Tokenize/Tokenize", tei.EncodeRequest(inputs=SECRET, add_special_tokens=True)),
]


@dataclasses.dataclass
class Doors:
    """Findings of a run.

    Attributes:
        http: answers by status; 0: closed without an answer.
        grpc: answers by the name of the code.
        leaks: requests, and answers that hold what none may hold.
        failures: entries of the service's log that it should not have.
        shapes: hostile rounds.
        odd: answers to them that were not expected.
        costs: of everything, to the service and to a neighbour.
    """

    http: Counter[int] = dataclasses.field(default_factory=Counter)
    grpc: Counter[str] = dataclasses.field(default_factory=Counter)
    leaks: list[tuple[bytes, bytes]] = dataclasses.field(default_factory=list)
    memory: list[Sample] = dataclasses.field(default_factory=list)
    failures: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    shapes: int = 0
    odd: list[str] = dataclasses.field(default_factory=list)
    costs: hostile.Costs | None = None

    def problems(self) -> list[str]:
        """Return all violations; empty: none."""
        found = [
            f"{count} requests were answered with {status}"
            for status, count in self.http.items()
            if status not in ALLOWED_HTTP | {0}
        ]
        found += [
            f"{count} calls ended as {code}"
            for code, count in self.grpc.items()
            if code not in ALLOWED_GRPC
        ]
        sent = self.http.total()
        if self.http[0] > 2 * MUTATED_HEADS * sent:
            found.append(f"{self.http[0]} of {sent} requests had no answer")
        for good, bad, answers in (
            (self.http[200], self.http[400] + self.http[422], sent),
            (self.grpc["OK"], self.grpc["INVALID_ARGUMENT"], self.grpc.total()),
        ):
            if min(good, bad) <= answers / 50:
                found.append(f"{good} good and {bad} bad of {answers}: too coarse or too fine")
        found += [f"{told!r:.300} came back of {raw!r:.300}" for raw, told in self.leaks[:5]]
        found += [f"the log has {entry}" for entry in self.failures[:5]]
        found += self.odd[:5]
        return found + self._costly() + flatness(self.memory).problems()

    def _costly(self) -> list[str]:
        costs = self.costs
        if costs is None or not costs.seconds:
            return ["no neighbour has called"]
        found = [f"a neighbour was refused: {each}" for each in costs.refused[:5]]
        if costs.memory > MOST_MEMORY:
            found.append(f"memory grew by {costs.memory / MIB:.0f} MiB at its peak")
        if costs.descriptors > MOST_DESCRIPTORS:
            found.append(f"{costs.descriptors} descriptors were open")
        if max(costs.seconds) > MOST_SECONDS:
            found.append(f"a neighbour waited {max(costs.seconds):.1f} s")
        return found

    def __str__(self) -> str:
        flat = flatness(self.memory)
        statuses = ", ".join(f"{status or 'closed'} {n}" for status, n in sorted(self.http.items()))
        codes = ", ".join(f"{code} {count}" for code, count in self.grpc.most_common())
        return (
            f"HTTP: {statuses}; gRPC: {codes}; memory {flat.begin / MIB:.0f} -> "
            f"{flat.end / MIB:.0f} MiB, at most {flat.peak / MIB:.0f}; "
            f"{self.shapes} hostile rounds: {self._spent()}"
        )

    def _spent(self) -> str:
        costs = self.costs
        if costs is None:
            return "none"
        times = sorted(costs.seconds)
        return (
            f"memory +{costs.memory / MIB:.0f} MiB at its peak, {costs.descriptors} descriptors, "
            f"a neighbour's median {times[len(times) // 2] * 1e3:.0f} ms, "
            f"longest {times[-1] * 1e3:.0f} ms"
        )


class Sender:
    """One caller: HTTP and gRPC by turns."""

    def __init__(self, service: Service, channel: Any, chance: random.Random, doors: Doors) -> None:
        self._host, _, self._port = service.rest.partition(":")
        self._channel, self._chance, self._doors = channel, chance, doors

    async def send(self, count: int) -> None:
        for _ in range(count):
            await (self._http() if self._chance.random() < 0.5 else self._grpc())

    async def _http(self) -> None:
        path, body = self._chance.choice(BODIES)
        content = mutated(json.dumps(body).encode(), self._chance)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        ).encode()
        if self._chance.random() < MUTATED_HEADS:
            head = mutated(head, self._chance)
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(head + content)
                await writer.drain()
                answer = await reader.readuntil(b"\r\n\r\n")
                if length := LENGTH.search(answer):
                    answer += await reader.readexactly(int(length[1]))
        except (ConnectionError, asyncio.IncompleteReadError):
            answer = b""  # closed, with or without having read all bytes
        finally:
            writer.close()
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        self._doors.http[status] += 1
        if status != 200 and any(leak in answer for leak in LEAKS):
            self._doors.leaks.append((head + content, answer))

    async def _grpc(self) -> None:
        method, message = self._chance.choice(MESSAGES)
        raw = mutated(message.SerializeToString(), self._chance)
        try:
            await self._channel.unary_unary(method)(raw, timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            code, told = error.code().name, (error.details() or "").encode()
            if any(leak in told for leak in LEAKS):
                self._doors.leaks.append((raw, told))
        else:
            code = "OK"
        self._doors.grpc[code] += 1


class Hostile:
    """Hostile rounds: each sends every shape once."""

    def __init__(self, plain: Service, tls: Service, chance: random.Random, doors: Doors) -> None:
        self._plain, self._tls, self._chance, self._doors = plain, tls, chance, doors

    async def round(self) -> None:
        """Send all shapes at once, each on a thread."""
        plain = self._plain
        shapes = (
            lambda: hostile.pipelined_flood(plain, FLOOD_BYTES),
            self._lists,
            lambda: hostile.trickled_bodies(plain, HELD, HELD_SECONDS),
            lambda: hostile.large_bodies(plain, HELD // 4, HELD_SECONDS),
            lambda: hostile.lingering(plain, HELD, HELD_SECONDS),
            self._trailers,
            lambda: hostile.silent_handshakes(self._tls, SHAKING),
        )
        await asyncio.gather(*(asyncio.to_thread(each) for each in shapes))
        self._doors.shapes += 1
        if (opened := hostile.open_files(self._tls)) > MOST_DESCRIPTORS:
            self._doors.odd.append(f"silent TLS handshakes left {opened} descriptors")

    def _lists(self) -> None:
        for _ in range(3):
            path, status = hostile.random_lists(self._plain, self._chance)
            if status not in ALLOWED_HTTP:
                self._doors.odd.append(f"lists to {path} were answered with {status}")

    def _trailers(self) -> None:
        lines = self._chance.sample(TRAILERS, self._chance.randrange(len(TRAILERS)))
        answer = hostile.trailers(self._plain, *lines)
        if not answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 429 ")):
            self._doors.odd.append(f"trailers {lines} were answered with {answer[:50]!r}")


async def fuzz_doors(bundle: Path, requests: int, seed: int) -> Doors:
    """Send so many requests to a service of their own. The same seed sends the same ones."""
    doors = Doors()
    options = ("--api", "127.0.0.1:0", "--stall-seconds", str(STALL_SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        pair = Authority(Path(folder) / "authority").sign("localhost")
        encrypted = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
        with (
            Service(bundle, *options) as service,
            Service(bundle, *options, *encrypted) as tls,
            hostile.Costs(service) as doors.costs,
        ):
            rounds = Hostile(service, tls, random.Random(seed), doors)
            async with grpc.aio.insecure_channel(service.target) as channel:
                for part in range(PARTS):
                    async with asyncio.TaskGroup() as callers:
                        if part in ROUNDS:
                            callers.create_task(rounds.round())
                        for caller in range(CALLERS):
                            chance = random.Random(f"{seed} {part} {caller}")
                            sender = Sender(service, channel, chance, doors)
                            callers.create_task(sender.send(max(1, requests // PARTS // CALLERS)))
                    doors.memory.append(Sample(time.monotonic(), service.resident_bytes()))
    doors.failures = [each for each in service.log if each.get("level") in ("error", "critical")]
    if SECRET in str(service.log):
        doors.leaks.append((b"", b"a caller's text, in the log"))
    return doors
