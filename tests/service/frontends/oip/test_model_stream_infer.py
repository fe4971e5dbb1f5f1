"""ModelStreamInfer over a real socket: order, errors within the stream, waiting, and the drain."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.security.authentication import Authenticator
from tests.service.calls import refused, until
from tests.service.conftest import Serve, Service
from tests.service.frontends.oip.inference_calls import (
    ATTENTION,
    InferenceStub,
    arrays,
    of_ids,
    of_texts,
)


def numbered(place: int, *texts: str, **options: Any) -> oip.ModelInferRequest:
    request = of_texts(*(texts or ["w" * (place + 1)]), **options)
    request.id = str(place)
    return request


async def responses(call: Any) -> list[oip.ModelStreamInferResponse]:
    return [response async for response in call]


def ids_of(found: list[oip.ModelStreamInferResponse]) -> list[str]:
    return [each.infer_response.id for each in found]


async def test_answers_come_in_order_and_are_those_of_model_infer(service: Service) -> None:
    # Shortest last: batches take near lengths together, so they are computed in another order.
    requests = [numbered(place, " ".join(["w"] * (40 - place))) for place in range(40)]
    stub = InferenceStub(service.channel)
    found = await responses(stub.ModelStreamInfer(iter(requests)))
    alone = [await stub.ModelInfer(request) for request in requests]
    assert ids_of(found) == [str(place) for place in range(40)]
    for streamed, unary in zip(found, alone, strict=True):
        assert streamed.infer_response.raw_output_contents == unary.raw_output_contents
        assert streamed.infer_response.parameters["triton_final_response"].bool_param
        assert streamed.error_message == ""


async def test_an_error_concerns_its_request_alone(service: Service) -> None:
    requests = [
        numbered(0),
        numbered(1, "a", model="x"),
        numbered(2, "a", ""),
        numbered(3, dimensions=9),
        numbered(4),
    ]
    stub = InferenceStub(service.channel)
    call = stub.ModelStreamInfer(iter(requests))
    found = await responses(call)
    assert await call.code() is grpc.StatusCode.OK
    alone = await stub.ModelInfer(requests[4])
    assert ids_of(found) == ["0", "1", "2", "3", "4"]
    messages = [each.error_message for each in found]
    assert messages[0] == messages[4] == ""
    assert messages[1].startswith("model_name: not served here; there is fake")
    assert messages[2].startswith("text[1]: is empty")
    assert messages[3].startswith("parameters.dimensions: is 9")
    assert not found[2].infer_response.outputs
    assert found[4].infer_response.raw_output_contents == alone.raw_output_contents


async def test_an_error_of_the_engine_concerns_its_request_alone(service: Service) -> None:
    service.engine.overflows = 7
    requests = [of_ids([[1]]), of_ids([[7]]), of_ids([[2]])]
    stub = InferenceStub(service.channel)
    found = await responses(stub.ModelStreamInfer(iter(requests)))
    assert [bool(each.error_message) for each in found] == [False, True, False]
    assert "error id" in found[1].error_message


async def test_a_slow_first_request_delays_the_answers_behind_it(single: Service) -> None:
    single.engine.gate.clear()
    call = InferenceStub(single.channel).ModelStreamInfer()
    await call.write(numbered(0))
    await single.started()
    await call.write(numbered(1, "a", model="x"))  # fails at once
    await until(lambda: stream_of(single)._unanswered == 2)
    single.engine.gate.set()
    assert (await call.read()).infer_response.id == "0"
    assert (await call.read()).infer_response.id == "1"
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


def stream_of(service: Service) -> Any:
    """Return the only open stream."""
    servicer = service.public[oip.DESCRIPTOR]
    [stream] = servicer._streams
    return stream


async def test_a_stream_waits_for_its_quota_where_a_unary_call_is_refused(serve: Serve) -> None:
    # Each asks for an eighth of the quota of a second; the bucket holds one second.
    quotas = Quotas(400, 1)
    requests = [numbered(place, *["a bb"] * 50) for place in range(6)]
    async with serve(authenticator=Authenticator(None), quotas=quotas) as service:
        stub = InferenceStub(service.channel)
        found = await responses(stub.ModelStreamInfer(iter(requests)))
        assert [each.error_message for each in found] == [""] * 6
        calls = [stub.ModelInfer(request) for request in requests]
        codes = [await call.code() for call in calls]
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes


async def test_a_wait_for_a_quota_ends_with_the_timeout(serve: Serve) -> None:
    quotas = Quotas(1, 100)
    requests = [
        numbered(0, *["a bb"] * 40),
        numbered(1, *["a bb"] * 40, timeout=1_000_000),
    ]
    async with serve(authenticator=Authenticator(None), quotas=quotas) as service:
        found = await responses(InferenceStub(service.channel).ModelStreamInfer(iter(requests)))
    assert found[0].error_message == ""
    assert found[1].error_message


async def test_answers_that_fill_the_window_do_not_block_those_before_them(serve: Serve) -> None:
    """Each is larger than half of the window, and the first is tokenised last."""
    long, short = " ".join(["w"] * 300), " ".join(["w"] * 290)
    requests = [
        numbered(place, long if place % 2 else short, model=ATTENTION, outputs=("attention",))
        for place in range(6)
    ]
    async with serve(max_stream_output_bytes=3 << 20) as service:
        async with asyncio.timeout(60):
            found = await responses(InferenceStub(service.channel).ModelStreamInfer(iter(requests)))
    assert ids_of(found) == [str(place) for place in range(6)]
    assert [arrays(each.infer_response)["attention"].shape[-1] for each in found] == [290, 300] * 3


async def test_no_more_requests_are_read_than_may_be_in_flight(serve: Serve) -> None:
    async with serve(max_stream_in_flight=2, streams=1) as service:
        service.engine.gate.clear()
        call = InferenceStub(service.channel).ModelStreamInfer(
            iter([numbered(place) for place in range(5)])
        )
        await service.started()
        await until(lambda: service.metric("headlight_queue_tokens") == 2)
        assert stream_of(service)._unanswered == 2
        service.engine.gate.set()
        assert ids_of(await responses(call)) == ["0", "1", "2", "3", "4"]


async def test_a_client_that_disconnects_frees_everything(single: Service) -> None:
    single.engine.gate.clear()
    call = InferenceStub(single.channel).ModelStreamInfer(
        iter([numbered(place) for place in range(5)])
    )
    await single.started()
    await until(lambda: single.metric("headlight_queue_tokens") == 5)
    call.cancel()
    await until(lambda: single.in_flight.count == 0)
    single.engine.gate.set()
    await until(lambda: single.metric("headlight_queue_tokens") == 0)


async def test_a_drain_answers_what_was_read_and_ends_the_stream(single: Service) -> None:
    single.engine.gate.clear()
    call = InferenceStub(single.channel).ModelStreamInfer()
    await call.write(numbered(0))
    await single.started()
    for servicer in single.public.values():
        servicer.drain()
    single.engine.gate.set()
    assert (await call.read()).infer_response.id == "0"
    error = await refused(call.read(), grpc.StatusCode.UNAVAILABLE)
    assert "resend unanswered requests on a new stream" in str(error.details())
