"""Mutated requests over HTTP, the Open Inference Protocol and tei.v1, and hostile traffic: F14c.

They go to a service of their own, and beside them hostile shapes of traffic: pipelined floods,
lists of lists, bodies that never end, lingering connections, trailers, silent TLS handshakes.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from headlight_service.frontends.grpc.tei import tei_messages as tei
from headlight_service.frontends.oip import inference_messages as oip
from tests.certificates import Authority
from tests.chaos.findings import LEAKS, SECRET, Findings
from tests.chaos.flat import MIB
from tests.chaos.mutations.of_protobuf import mutated
from tests.chaos.record import Outcome
from tests.chaos.traffic import hostile
from tests.service.frontends.oip.inference_calls import of_ids, of_texts
from tests.system.conftest import bundle_of
from tests.system.processes import Service

REQUESTS = 2_000
CALLERS = 20
PARTS = 50  # after each of which memory is looked at
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
STATUSES = {200, 400, 404, 405, 408, 411, 413, 415, 421, 422, 424, 429, 431, 501}
ALLOWED_HTTP = {"closed", *(f"HTTP {status}" for status in STATUSES)}
ALLOWED_GRPC = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
LEAKING = (*LEAKS, SECRET.encode())
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


class Sender:
    """One caller: HTTP and gRPC by turns."""

    def __init__(
        self, service: Service, channel: Any, chance: random.Random, http: Findings, calls: Findings
    ) -> None:
        self._host, _, self._port = service.rest.partition(":")
        self._channel, self._chance, self._http, self._calls = channel, chance, http, calls

    async def send(self, count: int) -> None:
        for _ in range(count):
            await (self._request() if self._chance.random() < 0.5 else self._call())

    async def _request(self) -> None:
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
        end = f"HTTP {int(answer[9:12])}" if answer.startswith(b"HTTP/1.1 ") else "closed"
        self._http.ends[end] += 1
        if end != "HTTP 200":
            self._http.search(head + content, [answer], LEAKING)

    async def _call(self) -> None:
        method, message = self._chance.choice(MESSAGES)
        raw = mutated(message.SerializeToString(), self._chance)
        try:
            await self._channel.unary_unary(method)(raw, timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._calls.ends[error.code().name] += 1
            self._calls.search(raw, [(error.details() or "").encode()], LEAKING)
        else:
            self._calls.ends["OK"] += 1


async def hostile_round(
    plain: Service, tls: Service, chance: random.Random, found: Findings
) -> None:
    """Send every hostile shape once, all at once, each on a thread."""

    def lists() -> None:
        for _ in range(3):
            path, status = hostile.random_lists(plain, chance)
            if status not in STATUSES:
                found.broken.append(f"lists to {path} were answered with {status}")

    def trailers() -> None:
        lines = chance.sample(TRAILERS, chance.randrange(len(TRAILERS)))
        answer = hostile.trailers(plain, *lines)
        if not answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 429 ")):
            found.broken.append(f"trailers {lines} were answered with {answer[:50]!r}")

    shapes: tuple[Callable[[], object], ...] = (
        lambda: hostile.pipelined_flood(plain, FLOOD_BYTES),
        lists,
        lambda: hostile.trickled_bodies(plain, HELD, HELD_SECONDS),
        lambda: hostile.large_bodies(plain, HELD // 4, HELD_SECONDS),
        lambda: hostile.lingering(plain, HELD, HELD_SECONDS),
        trailers,
        lambda: hostile.silent_handshakes(tls, SHAKING),
    )
    await asyncio.gather(*(asyncio.to_thread(each) for each in shapes))
    if (opened := tls.open_files()) > MOST_DESCRIPTORS:
        found.broken.append(f"silent TLS handshakes left {opened} descriptors")


async def mutated_requests(times: float = 1.0, seed: int = 1) -> Outcome:
    """Send so many times the usual number of requests. The same seed sends the same ones."""
    http, calls = Findings(), Findings()
    options = ("--api", "127.0.0.1:0", "--stall-seconds", str(STALL_SECONDS))
    each = max(1, int(times * REQUESTS / PARTS / CALLERS))
    with tempfile.TemporaryDirectory() as folder:
        pair = Authority(Path(folder) / "authority").sign("localhost")
        encrypted = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
        with (
            Service(bundle_of("docs-rope"), *options) as service,
            Service(bundle_of("docs-rope"), *options, *encrypted) as tls,
            hostile.Costs(service) as costs,
        ):
            rounds = random.Random(seed)
            async with grpc.aio.insecure_channel(service.target) as channel:
                for part in range(PARTS):
                    async with asyncio.TaskGroup() as callers:
                        if part in ROUNDS:
                            callers.create_task(hostile_round(service, tls, rounds, http))
                        for caller in range(CALLERS):
                            chance = random.Random(f"{seed} {part} {caller}")
                            sender = Sender(service, channel, chance, http, calls)
                            callers.create_task(sender.send(each))
                    http.sample(service)
    http.read_log(service)
    problems = http.problems() + http.unexpected(ALLOWED_HTTP)
    problems += calls.broken + calls.unexpected(ALLOWED_GRPC)
    sent = http.ends.total()
    if http.ends["closed"] > 2 * MUTATED_HEADS * sent:
        problems.append(f"{http.ends['closed']} of {sent} requests had no answer")
    problems += http.unreached(1 / 50, ["HTTP 200"], ["HTTP 400", "HTTP 422"])
    problems += calls.unreached(1 / 50, ["OK"], ["INVALID_ARGUMENT"])
    problems += expensive(costs)
    return Outcome(
        f"{sent:,} requests: {http}; {calls.ends.total():,} calls: "
        f"{', '.join(f'{end} {count:,}' for end, count in calls.ends.most_common())}; "
        f"{len(ROUNDS)} hostile rounds: {costs}",
        {"http": http.ends, "grpc": calls.ends},
        problems,
    )


def expensive(costs: hostile.Costs) -> list[str]:
    """Return violations: what all of it cost beyond the limits."""
    if not costs.seconds:
        return ["no neighbour has called"]
    found = [f"a neighbour was refused: {each}" for each in costs.refused[:5]]
    if costs.memory > MOST_MEMORY:
        found.append(f"memory grew by {costs.memory / MIB:.0f} MiB at its peak")
    if costs.descriptors > MOST_DESCRIPTORS:
        found.append(f"{costs.descriptors} descriptors were open")
    if max(costs.seconds) > MOST_SECONDS:
        found.append(f"a neighbour waited {max(costs.seconds):.1f} s")
    return found
