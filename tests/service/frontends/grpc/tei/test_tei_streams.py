"""Streams of tei.v1: their order, the wait for room, their end."""

from __future__ import annotations

import asyncio

import grpc

from headlight_service.frontends.grpc.tei import tei_messages as pb
from tests.service.calls import refused, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import FakeRuntime
from tests.service.frontends.grpc.tei.tei_calls import call, call_stream

MANY = 300  # requests, far more than a stream has in flight


def requests_of(count: int) -> list[pb.EmbedRequest]:
    """Return requests whose answers differ: the fake's vectors depend on the words' lengths."""
    return [pb.EmbedRequest(inputs="w" * (1 + i % 90) + " w" * (i % 7)) for i in range(count)]


async def test_answers_come_in_the_order_of_the_requests(serve: Serve) -> None:
    requests = requests_of(MANY)
    async with serve(streams=2) as service:
        streamed = await call_stream(service.channel, "EmbedStream", requests)
        singles = [await call(service.channel, "Embed", request) for request in requests[:90]]
        assert len(streamed) == MANY
        for one, other in zip(streamed, singles, strict=False):
            assert one.embeddings == other.embeddings


async def test_a_stream_waits_where_a_call_is_shed(service: Service) -> None:
    admission = service.model.admission
    outputs = admission.outputs
    taken = outputs.free
    outputs.take(taken)
    await refused(
        call(service.channel, "Embed", pb.EmbedRequest(inputs="a")),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
    streaming = asyncio.create_task(call_stream(service.channel, "EmbedStream", requests_of(20)))
    await until(lambda: admission._waiting.count > 0)
    read = requests_of(1)[0].ByteSize()
    assert admission.requests.held == read, "it reads no further while one request waits"
    with admission.lock:
        admission.give_output(taken)
    assert len(await streaming) == 20
    assert service.metric("headlight_rejected_total", reason="output_bytes") == 1


async def test_a_stream_reads_no_more_than_its_window(serve: Serve) -> None:
    requests, held = [pb.EmbedRequest(inputs="one two")] * MANY, list[int]()
    async with serve(max_stream_in_flight=3, streams=1) as service:
        admission = service.model.admission
        service.engine.takes = lambda tokens: held.append(admission.requests.held)
        assert len(await call_stream(service.channel, "EmbedStream", requests)) == MANY
    assert requests[0].ByteSize() <= min(held) <= max(held) <= 3 * requests[0].ByteSize()


async def test_the_first_failure_ends_the_stream(service: Service) -> None:
    requests = [*requests_of(5), pb.EmbedRequest(inputs=""), *requests_of(5)]
    stream = call(service.channel, "EmbedStream", requests)
    for request in requests_of(5):
        assert (await stream.read()).metadata.compute_chars == len(request.inputs)
    error = await refused(stream.read(), grpc.StatusCode.INVALID_ARGUMENT)
    assert (error.details() or "").startswith("inputs: is empty")
    await until(lambda: service.model.admission.requests.held == 0)


async def test_a_cancelled_stream_gives_everything_back(serve: Serve) -> None:
    runtime = FakeRuntime()
    async with serve(runtime) as service:
        runtime.engine.gate.clear()
        stream = call(service.channel, "EmbedStream", requests_of(9))
        await service.started()
        stream.cancel()
        admission = service.model.admission
        runtime.engine.gate.set()
        await until(lambda: (admission.requests.held, admission.outputs.held) == (0, 0))


async def test_a_draining_server_answers_the_requests_it_has_read(service: Service) -> None:
    stream = call(service.channel, "EmbedStream", None)
    await stream.write(pb.EmbedRequest(inputs="a"))
    assert len((await stream.read()).embeddings) == 4
    service.servicers.drain()
    await refused(stream.read(), grpc.StatusCode.UNAVAILABLE)
