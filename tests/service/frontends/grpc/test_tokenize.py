"""Tokenize, and the effect of large requests on other callers, over a real socket."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.contract import answer_encoding, answer_forms
from tests.service.calls import refused, request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import FakeRuntime, FakeTokenizer


def tokenize_request(*inputs: pb.Input) -> pb.TokenizeRequest:
    return pb.TokenizeRequest(inputs=inputs)


@pytest.mark.parametrize("method", ["Tokenize", "Encode"])
async def test_large_token_answers_are_encoded_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, method: str, service: Service
) -> None:
    builders, built = set[int](), set[str]()

    def noting(build: Any) -> Any:
        def noted(*args: Any) -> Any:
            builders.add(threading.get_ident())
            built.add(build.__name__)
            return build(*args)

        return noted

    for module, name in (
        (answer_encoding, "token_info"),
        (answer_forms, "token_info"),
        (answer_forms, "header"),
    ):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    outputs = pb.Outputs(token_info=pb.TokenInfoOutput())
    requests = {
        "Tokenize": tokenize_request(text_of(1500)),
        "Encode": request(text_of(1500), outputs=outputs),
    }
    response = await getattr(service.stub, method)(requests[method])
    assert len(response.items) == 1
    assert built == ({"token_info"} if method == "Tokenize" else {"token_info", "header"})
    assert len(builders) == 1
    assert threading.get_ident() not in builders


async def test_a_token_answer_too_large_is_refused_early_with_its_size(
    serve: Serve,
) -> None:
    runtime = FakeRuntime()
    async with serve(runtime) as service:
        size = (await service.stub.Tokenize(tokenize_request(*[text_of(300)] * 3))).ByteSize()
    async with serve(runtime, max_unary_response_bytes=size) as service:
        assert (
            await service.stub.Tokenize(tokenize_request(*[text_of(300)] * 3))
        ).ByteSize() == size
        assert runtime.tokenizer is not None
        runtime.tokenizer.texts.clear()
        call = service.stub.Tokenize(tokenize_request(*[text_of(300)] * 100))
        error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
        told = (error.details() or "").split()
        assert (error.details() or "").startswith(
            "inputs: the answer to the first 4 of 100 would have "
        )
        assert int(told[told.index("have") + 1]) > size
        assert len(runtime.tokenizer.texts) == 4


async def test_a_disconnect_while_waiting_for_the_tokenizer_holds_nothing(
    serve: Serve,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class SlowTokenizer(FakeTokenizer):
        def encode(self, *args: Any, **options: Any) -> Any:
            begun.set()
            assert may_end.wait(30)
            return super().encode(*args, **options)

    runtime = FakeRuntime()
    runtime.tokenizer = SlowTokenizer()
    async with serve(runtime) as service:
        first = asyncio.ensure_future(service.stub.Encode(request(text_of(1500), text_of(1))))
        assert await asyncio.to_thread(begun.wait, 30)
        held = service.metric("headlight_held_request_bytes") or 0
        waiting = [service.stub.Encode(request(text_of(1500))) for _ in range(20)]
        await until(lambda: service.in_flight.count == 21)
        for call in waiting:
            call.cancel()
        await until(lambda: service.in_flight.count == 1)
        assert service.metric("headlight_held_request_bytes") == held
        assert service.metric("headlight_cancelled_total", stage="tokenize") == 20
        first.cancel()
        await until(lambda: service.in_flight.count == 0)
        assert service.metric("headlight_cancelled_total", stage="tokenize") == 21
        assert service.metric("headlight_held_request_bytes") == held, "a thread still works on it"
        may_end.set()
        await until(lambda: service.metric("headlight_held_request_bytes") == 0)
        assert service.metric("headlight_cancelled_total", stage="tokenize") == 21
    assert len(runtime.tokenizer.texts) == 1, "the second text was left alone"
