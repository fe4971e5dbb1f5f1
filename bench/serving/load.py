"""Load generator, in its own process: its CPU time is known, and takes none of a contestant's.

    python -m bench.serving.load TEXTS

Requests are serialised before the clock starts, and answers are decoded after it stops: only the
server is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import grpc
import numpy as np

from bench.attention_forms import FORMS, VECTORS_ALONE, attention_request, suited
from bench.peers.worker import answer, groups, read_texts
from bench.serving.doors import DOORS, Connection, embeddings_body
from bench.serving.open_loop import SERVICE, flooded, open_loop
from headlight import AsyncClient
from headlight.pb import headlight_pb2 as pb

Send = Callable[[int, bytes], Awaitable[object]]  # by caller


def requests_of(texts: Sequence[str], order: Sequence[int], group: int) -> list[pb.EncodeRequest]:
    """Return a request for each group."""
    cut = pb.TRUNCATION_CUT_END
    return [
        pb.EncodeRequest(inputs=[pb.Input(text=texts[i]) for i in part], truncation=cut)
        for part in groups(order, group)
    ]


def prioritised(requests: Sequence[pb.EncodeRequest], bulk: bool) -> list[bytes]:
    """Serialise requests, with the priority if the contract has such a field."""
    for request in requests if "priority" in pb.EncodeRequest.DESCRIPTOR.fields_by_name else ():
        name = "PRIORITY_BULK" if bulk else "PRIORITY_INTERACTIVE"
        value = pb.DESCRIPTOR.enum_types_by_name["Priority"].values_by_name[name].number
        setattr(request, "priority", value)  # noqa: B010
    return [request.SerializeToString() for request in requests]


async def measured(work: Coroutine[Any, Any, list[float]]) -> dict[str, Any]:
    """Return the time of some work, and this process's CPU time."""
    begin, cpu = time.perf_counter(), time.process_time()
    latencies = await work
    return {
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - cpu,
        "latencies": latencies,
    }


async def closed_loop(bodies: Sequence[bytes], callers: int, send: Send) -> list[float]:
    """Run callers that each wait for an answer before the next request; return all latencies."""
    left, latencies = iter(bodies), []

    async def caller(number: int) -> None:
        for body in left:
            begin = time.perf_counter()
            await send(number, body)
            latencies.append(time.perf_counter() - begin)

    await asyncio.gather(*map(caller, range(callers)))
    return latencies


@contextlib.asynccontextmanager
async def connected(target: str) -> AsyncIterator[Any]:
    """Connect to a server; messages are bytes."""
    async with grpc.aio.insecure_channel(target) as channel:
        await channel.channel_ready()
        yield channel


async def grpc_closed(
    target: str, bodies: Sequence[bytes], callers: int, method: str = f"{SERVICE}/Encode"
) -> dict[str, Any]:
    """Make unary calls over one connection; by default of Encode."""
    async with connected(target) as channel:
        encode = channel.unary_unary(method)
        return await measured(closed_loop(bodies, callers, lambda _, body: encode(body)))


async def http_closed(
    target: str, bodies: Sequence[bytes], callers: int, path: str = "/embeddings"
) -> dict[str, Any]:
    """Make POSTs, each caller over its own persistent connection."""
    connections = [await Connection.open(target) for _ in range(callers)]
    try:
        return await measured(
            closed_loop(bodies, callers, lambda number, body: connections[number].post(body, path))
        )
    finally:
        for connection in connections:
            connection.close()


async def stream(target: str, requests: Sequence[pb.EncodeRequest]) -> dict[str, Any]:
    """Send all requests on one stream, as fast as the server reads them."""
    frames = [
        pb.EncodeStreamRequest(id=str(at), encode=one).SerializeToString()
        for at, one in enumerate(requests)
    ]
    received: list[bytes] = []

    async def run(call: Any) -> list[float]:
        async for frame in call(iter(frames)):
            received.append(frame)
        return []

    async with connected(target) as channel:
        taken = await measured(run(channel.stream_stream(f"{SERVICE}/EncodeStream")))
    answers = [pb.EncodeStreamResponse.FromString(frame) for frame in received]
    if any(one.HasField("error") for one in answers) or len(answers) < len(requests):
        raise RuntimeError(
            f"{len(answers)} frames for {len(requests)} requests, or an error among them"
        )
    return taken


async def attended(target: str, bodies: Sequence[bytes], callers: int) -> dict[str, Any]:
    """Make calls of EncodeStream with one request each, as the shipped client does."""

    async def send(_: int, body: bytes) -> None:
        async for _frame in stream_of(iter([body])):
            pass

    async with connected(target) as channel:
        stream_of = channel.stream_stream(f"{SERVICE}/EncodeStream")
        return await measured(closed_loop(bodies, callers, send))


async def whole_list(target: str, texts: Sequence[str]) -> dict[str, Any]:
    """Encode the list with Headlight's own client: its splitting, decoding and arrays included."""
    async with AsyncClient(target) as client:
        await client.model()

        async def run() -> list[float]:
            await client.encode(texts, truncate="end")
            return []

        return await measured(run())


async def vectors(target: str, texts: Sequence[str], path: str) -> dict[str, Any]:
    """Write the vectors of all texts."""
    async with AsyncClient(target) as client:
        np.save(path, await client.encode(texts, truncate="end"))
    return {}


class Load:
    """Operations of the generator, one for each method."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def closed(self, target: str, order: list[int], callers: int, group: int) -> dict[str, Any]:
        return asyncio.run(grpc_closed(target, self._bodies(order, group), callers))

    def posted(
        self, target: str, path: str, model: str, order: list[int], callers: int, group: int
    ) -> dict[str, Any]:
        texts = self._texts
        bodies = [embeddings_body([texts[i] for i in part], model) for part in groups(order, group)]
        return asyncio.run(http_closed(target, bodies, callers, path))

    def door(
        self, door: str, model: str, target: str, order: list[int], callers: int, group: int
    ) -> dict[str, Any]:
        protocol, texts = DOORS[door], self._texts
        bodies = [protocol.encode([texts[i] for i in part], model) for part in groups(order, group)]
        send = http_closed if protocol.over_http else grpc_closed
        return asyncio.run(send(target, bodies, callers, protocol.method))

    def attention(
        self, target: str, form: str, pooling: str, calls: list[list[int]], callers: int
    ) -> dict[str, Any]:
        if form == VECTORS_ALONE:
            bodies = [attention_request(None, lengths).SerializeToString() for lengths in calls]
            return asyncio.run(grpc_closed(target, bodies, callers))
        spec = suited(FORMS[form], pooling)
        requests = [
            pb.EncodeStreamRequest(id="1", encode=attention_request(spec, lengths))
            for lengths in calls
        ]
        bodies = [each.SerializeToString() for each in requests]
        return asyncio.run(attended(target, bodies, callers))

    def stream(self, target: str, order: list[int], group: int) -> dict[str, Any]:
        return asyncio.run(stream(target, requests_of(self._texts, order, group)))

    def listed(self, target: str, order: list[int]) -> dict[str, Any]:
        return asyncio.run(whole_list(target, [self._texts[i] for i in order]))

    def vectors(self, target: str, path: str) -> dict[str, Any]:
        return asyncio.run(vectors(target, self._texts, path))

    def open(
        self,
        target: str,
        order: Sequence[int],
        group: int,
        rate: float,
        seconds: float,
        deadline: float,
    ) -> dict[str, Any]:
        whole = order[: len(order) // group * group]  # all requests of one size
        return open_loop(target, self._bodies(whole, group), group, rate, seconds, deadline)

    def flood(self, target: str, group: int, callers: int, seconds: float) -> dict[str, Any]:
        everything = range(len(self._texts) // group * group)
        singles, many = (
            prioritised(requests_of(self._texts, everything, size), bulk=size > 1)
            for size in (1, group)
        )
        return flooded(target, singles, many, group, callers, seconds)

    def _bodies(self, order: Sequence[int], group: int) -> Sequence[bytes]:
        return [one.SerializeToString() for one in requests_of(self._texts, order, group)]


def main() -> None:
    load = Load(read_texts(sys.argv[1]))
    names = [name for name in vars(Load) if not name.startswith("_")]
    answer({name: getattr(load, name) for name in names})


if __name__ == "__main__":
    main()
