"""Load shedding over a real socket: conditions, messages, and later acceptance."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.grpc.grpc_status import PUSHBACK
from headlight_service.frontends.grpc.transport import call_threads
from headlight_service.telemetry.metrics import CANCEL_STAGES
from tests.service.calls import details_of, refused, request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import HEADS


async def test_a_full_queue_refuses_with_a_retry_delay(serve: Serve) -> None:
    async with serve(max_queue_tokens=2000, max_request_tokens=2000) as service:
        first = await service.hold(service.stub.Encode(request(text_of(2000))))
        error = await refused(service.stub.Encode(request()), grpc.StatusCode.RESOURCE_EXHAUSTED)
        metadata: Any = error.trailing_metadata()
        assert (PUSHBACK, "1000") in list(metadata)
        full = details_of(error)
        assert (full["ErrorInfo"].reason, full["ErrorInfo"].domain) == ("QUEUE_TOKENS", "headlight")
        assert full["RetryInfo"].retry_delay.ToMilliseconds() == 1000
        service.engine.gate.set()
        await first
        await service.stub.Encode(request())
        assert service.metric("headlight_rejected_total", reason="queue_tokens") == 1


async def test_calls_and_streams_beyond_their_limit_are_refused_with_a_retry_delay(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_threads, "MOST_CALLS", 0)
    monkeypatch.setattr(call_threads, "MOST_STREAMS", 0)
    async with serve() as service:
        stream = service.stub.EncodeStream(iter([]))
        for ask in (lambda: service.stub.Encode(request()), stream.read):
            error = await refused(ask(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            metadata: Any = error.trailing_metadata()
            assert (PUSHBACK, "1000") in list(metadata)


async def test_bytes_of_requests_are_bounded_before_anything_is_tokenised(serve: Serve) -> None:
    async with serve(max_queue_bytes=8000, max_request_bytes=8000) as service:
        first = await service.hold(service.stub.Encode(request(text_of(1500))))
        held = service.metric("headlight_held_request_bytes")
        assert held == request(text_of(1500)).ByteSize()
        call = service.stub.Tokenize(pb.TokenizeRequest(inputs=[text_of(200)]))
        error = await refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert details_of(error)["ErrorInfo"].reason == "REQUEST_BYTES"
        service.engine.gate.set()
        await first
        await service.stub.Encode(request(text_of(1500)))
        assert service.metric("headlight_rejected_total", reason="request_bytes") == 1
        await service.in_flight.idle()
        assert service.metric("headlight_held_request_bytes") == 0


async def test_a_wait_beyond_the_deadline_is_refused_at_once_and_never_queued(
    single: Service,
) -> None:
    slow = await single.hold(single.stub.Encode(request()))
    pause = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, pause.set)
    await pause.wait()
    single.engine.gate.set()
    await slow  # 2 tokens in 0.2 s
    single.engine.gate.clear()
    first = asyncio.ensure_future(single.stub.Encode(request(text_of(300))))  # so 30 s
    await single.started()
    error = await refused(
        single.stub.Encode(request(), timeout=10), grpc.StatusCode.RESOURCE_EXHAUSTED
    )
    assert details_of(error)["ErrorInfo"].reason == "WAIT_BEYOND_DEADLINE"
    assert (single.metric("headlight_backlog_seconds") or 0) > 10
    single.engine.gate.set()
    await first
    assert len(single.engine.batches) == 2


async def test_a_request_that_would_start_at_once_is_not_refused_by_its_estimate(
    serve: Serve,
) -> None:
    async with serve(streams=2) as service:
        first = await service.hold(service.stub.Encode(request(text_of(300))))
        # Measured under a load that is gone.
        service.model.estimate.worked_off(tokens=1, seconds=1e3)
        second = asyncio.ensure_future(service.stub.Encode(request(), timeout=60))
        await service.started()
        error = await refused(
            service.stub.Encode(request(), timeout=60), grpc.StatusCode.RESOURCE_EXHAUSTED
        )
        assert details_of(error)["ErrorInfo"].reason == "WAIT_BEYOND_DEADLINE", "no stream is idle"
        bulk = service.stub.Encode(request(priority=pb.PRIORITY_BULK), timeout=60)
        await refused(bulk, grpc.StatusCode.RESOURCE_EXHAUSTED)
        service.engine.gate.set()
        await asyncio.gather(first, second)


ATTENTION = pb.Outputs(attention=pb.AttentionOutput())


async def test_total_result_bytes_are_bounded_and_the_size_that_fits_is_reported(
    serve: Serve,
) -> None:
    one_layer = 4 * HEADS * 200**2
    around = 500  # at most: the overhead around the data of an answer
    options = {
        "max_output_bytes": 5 * one_layer + 2 * around,
        "max_unary_response_bytes": 4 * one_layer,
    }
    async with serve(**options) as service:
        first = await service.hold(service.stub.Encode(request(text_of(200), outputs=ATTENTION)))
        held = service.metric("headlight_held_output_bytes") or 0
        assert 3 * one_layer < held <= 3 * one_layer + around
        call = service.stub.Encode(request(text_of(200), outputs=ATTENTION))
        error = await refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert f"bytes; {held:.0f} of {options['max_output_bytes']} are in use" in (
            error.details() or ""
        )
        assert "2 of these 3 layers would fit" in (error.details() or "")
        assert details_of(error)["RetryInfo"].retry_delay.ToMilliseconds() == 1000
        two = pb.Outputs(attention=pb.AttentionOutput(layers=[0, 1]))
        second = asyncio.ensure_future(service.stub.Encode(request(text_of(200), outputs=two)))
        await service.started()
        service.engine.gate.set()
        await asyncio.gather(first, second)
        await service.in_flight.idle()
        assert service.metric("headlight_held_output_bytes") == 0
        assert len(service.engine.batches) == 2


@pytest.mark.parametrize(
    ("inputs", "outputs", "fits"),
    [
        ([400], ATTENTION, "; 2 of these 3 layers would fit; "),
        (
            [400, 400, 400],
            pb.Outputs(attention=pb.AttentionOutput(layers=[0])),
            "; dtype float16 would fit; ",
        ),
        ([900], pb.Outputs(attention=pb.AttentionOutput(layers=[0])), "; top_k 8 would fit; "),
        (
            [400, 400, 1000],
            pb.Outputs(attention=pb.AttentionOutput(layers=[0], scores=True)),
            "; the first 2 of these 3 inputs would fit; ",
        ),
        (
            [900],
            pb.Outputs(attention=pb.AttentionOutput(layers=[0], scores=True)),
            " bytes, over 3000000; ask for fewer",
        ),
    ],
)
async def test_an_answer_too_large_is_refused_with_a_size_that_fits(
    serve: Serve, inputs: list[int], outputs: pb.Outputs, fits: str
) -> None:
    async with serve(max_unary_response_bytes=3_000_000) as service:
        call = service.stub.Encode(request(*map(text_of, inputs), outputs=outputs))
        error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
        assert fits in (error.details() or "")
        assert service.engine.batches == []


async def test_disconnected_callers_are_counted_by_stage(single: Service) -> None:

    def cancelled(stage: str) -> float | None:
        return single.metric("headlight_cancelled_total", stage=stage)

    running = await single.hold(single.stub.Encode(request()))
    waiting = single.stub.Encode(request())
    await until(lambda: single.metric("headlight_queue_tokens") == 4)
    waiting.cancel()
    running.cancel()
    for stage in ("queue", "infer"):
        # Mypy infers none of its parameter.
        await until(lambda stage=stage: cancelled(stage) == 1)  # type: ignore[misc]
    # The requests that are being computed.
    await until(lambda: single.metric("headlight_queue_tokens") == 2)
    await until(lambda: single.metric("headlight_held_request_bytes") == 0)
    assert single.in_flight.count == 1, "whose thread computes them"
    single.engine.gate.set()
    await single.in_flight.idle()
    assert single.metric("headlight_queue_tokens") == 0
    assert [cancelled(stage) for stage in CANCEL_STAGES] == [0, 1, 1, 0]
    assert len(single.engine.batches) == 1
