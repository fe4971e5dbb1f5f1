"""Priorities over a real socket: every RPC that runs batches honours them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.values import Tokenized
from headlight_service.app.assembly import limits
from headlight_service.config.options import Config
from tests.service.batching import fitted
from tests.service.calls import request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import FakeRuntime, manifest
from tests.service.frontends.grpc.test_encode_stream import frames_of

BULK = pb.PRIORITY_BULK


def texts(service: Service, priority: str) -> float | None:
    return service.metric("headlight_texts_total", priority=priority)


async def test_unary_calls_streams_and_occlusion_are_counted_under_their_priority(
    service: Service,
) -> None:
    await service.stub.Encode(request(text_of(3), text_of(4), priority=BULK))
    assert (texts(service, "bulk"), texts(service, "interactive")) == (2, 0)
    streamed = pb.EncodeStreamRequest(id="a", encode=request(text_of(3), priority=BULK))
    assert len(await frames_of(service.stub.EncodeStream(iter([streamed])))) == 1
    assert (texts(service, "bulk"), texts(service, "interactive")) == (3, 0)
    await service.stub.Occlude(pb.OccludeRequest(input=text_of(3), priority=BULK))
    assert (texts(service, "bulk"), texts(service, "interactive")) == (7, 0)
    for told in (pb.PRIORITY_UNSPECIFIED, pb.PRIORITY_INTERACTIVE):
        await service.stub.Encode(request(text_of(3), priority=told))
    assert (texts(service, "bulk"), texts(service, "interactive")) == (7, 2)
    stages = {
        priority: service.metric("headlight_stage_seconds_count", priority=priority, stage="queue")
        for priority in ("bulk", "interactive")
    }
    assert stages == {"bulk": 3, "interactive": 2}
    batches = service.metric("headlight_batch_seconds_count", priority="bulk")
    assert batches == len(service.engine.batches) - 2


async def test_an_interactive_call_behind_a_queue_of_bulk_is_served_next(single: Service) -> None:
    single.engine.gate.clear()
    bulk = [
        asyncio.create_task(_answer(single, request(text_of(9), priority=BULK))) for _ in range(20)
    ]
    await single.started()
    await until(lambda: (single.metric("headlight_queue_bulk_tokens") or 0) == 20 * 9)
    urgent = asyncio.create_task(_answer(single, request(text_of(5))))
    await until(lambda: (single.metric("headlight_queue_tokens") or 0) == 20 * 9 + 5)
    single.engine.gate.set()
    await asyncio.gather(urgent, *bulk)
    assert [len(item.ids) for item in single.engine.batches[1]] == [5]
    assert single.metric("headlight_queue_bulk_tokens") == 0


async def test_an_interactive_text_does_not_wait_for_bulk_to_be_tokenised(serve: Serve) -> None:
    runtime, begun, may_end = FakeRuntime(), threading.Semaphore(0), threading.Event()
    assert runtime.tokenizer is not None
    encode_each = runtime.tokenizer.encode_each

    def slowly(texts: Sequence[str], **options: Any) -> Iterator[Tokenized]:
        if len(texts[0].split()) > 300:
            begun.release()
            assert may_end.wait(30)
        yield from encode_each(texts, **options)

    # As slow as long documents.
    runtime.tokenizer.encode_each = slowly  # type: ignore[method-assign, assignment]
    async with serve(runtime) as service:
        bulk = [
            asyncio.create_task(_answer(service, request(text_of(length), priority=BULK)))
            for length in (301, 302, 303)
        ]
        assert await asyncio.to_thread(begun.acquire, True, 30)
        for length in (300, 299):
            await _answer(service, request(text_of(length)))
        assert [len(text.split()) for text in runtime.tokenizer.texts] == [300, 299]
        may_end.set()
        await asyncio.gather(*bulk)


async def test_batch_options_reach_the_scheduler(serve: Serve) -> None:
    async with serve(streams=1, round_lengths=8) as service:
        await service.stub.Encode(request(text_of(3)))
        assert service.metric("headlight_padding_ratio_sum") == 1 - 3 / 8
        await service.stub.Encode(request(text_of(3), text_of(3), priority=BULK))
        # The first bulk item measures the rate.
        assert [len(batch) for batch in service.engine.batches] == [1, 1, 1]


@pytest.mark.parametrize(
    ("queue", "request_tokens", "bulk"), [(131072, 16384, 114688), (16384, 16384, 16384)]
)
def test_bulk_is_limited_to_its_share_of_the_queue(
    queue: int, request_tokens: int, bulk: int
) -> None:
    config = Config(bundle=Path("b"), max_queue_tokens=queue, max_request_tokens=request_tokens)
    admission = fitted(config, limits(config, manifest()))
    assert (admission.bulk.limit, admission.tokens.limit) == (bulk, queue)


async def _answer(service: Service, message: pb.EncodeRequest) -> Any:
    return await service.stub.Encode(message)
