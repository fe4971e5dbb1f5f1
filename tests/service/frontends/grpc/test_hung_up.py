"""Calls cancelled or expired before their message arrived: they are not empty calls.

Over a real socket.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.app.health import SERVICE
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Request
from headlight_service.frontends.answer_wait import done
from headlight_service.frontends.contract.answer_forms import UnaryForm
from headlight_service.frontends.grpc import peer_timeouts
from tests.service.batching import Clock
from tests.service.calls import request, until
from tests.service.conftest import Serve, Service

ENCODE = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Encode"}


@pytest.mark.parametrize(("seconds", "code"), [(None, "CANCELLED"), (0.1, "DEADLINE_EXCEEDED")])
async def test_a_call_without_its_message_has_the_right_status(
    serve: Serve, seconds: float | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Far more than needed: an event interrupts the wait.
    monkeypatch.setattr(peer_timeouts, "HUNG_UP_SECONDS", 30.0)
    async with serve() as service:
        channel: Any = service.channel
        call = channel.stream_unary(f"/{SERVICE}/Encode")(timeout=seconds)
        await until(lambda: service.sample("grpc_server_started_total", **ENCODE) == 1)
        if seconds is None:
            call.cancel()
        await until(lambda: service.sample("grpc_server_handling_seconds_count", **ENCODE) == 1)
        assert service.sample("grpc_server_handled_total", **ENCODE, grpc_code=code) == 1


async def test_a_stream_half_closed_during_an_answer_ends_with_that_answer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer already reveals the state of the caller,
    so a client that waits for the end is not delayed.
    """
    monkeypatch.setattr(peer_timeouts, "HUNG_UP_SECONDS", 3600.0)
    async with serve() as service:
        service.engine.gate.clear()
        call = service.stub.EncodeStream()
        await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
        await call.done_writing()
        await service.started()
        [stream] = service.servicer._streams
        assert stream._reader is not None
        await until(stream._reader.done)
        service.engine.gate.set()
        assert [frame.id async for frame in call] == ["a"]
        assert await call.code() is grpc.StatusCode.OK


async def test_a_fully_answered_stream_ends_ok_while_draining(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    waiting, go = asyncio.Event(), asyncio.Event()

    async def told() -> None:
        waiting.set()
        await go.wait()

    monkeypatch.setattr("headlight_service.frontends.grpc.calls.request_stream.no_more", told)
    call = service.stub.EncodeStream()
    await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
    assert (await call.read()).id == "a"
    [stream] = service.servicer._streams
    await until(lambda: not stream._unanswered)  # the caller sees it a moment before
    await call.done_writing()
    await waiting.wait()
    service.servicer.drain()
    go.set()
    assert await call.code() is grpc.StatusCode.OK


async def test_an_invalid_stream_end_is_reported_while_draining(service: Service) -> None:
    service.engine.gate.clear()
    call = service.stub.EncodeStream()
    await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
    await call.write(pb.EncodeStreamRequest(id="", encode=request()))
    await service.started()
    [stream] = service.servicer._streams
    assert stream._reader is not None
    await until(stream._reader.done)
    service.servicer.drain()
    service.engine.gate.set()
    assert (await call.read()).id == "a"
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


def holds_nothing(service: Service) -> bool:
    names = ("held_request_bytes", "held_output_bytes", "queue_tokens")
    return all(service.sample(f"headlight_{name}", model="fake") == 0 for name in names)


async def test_a_caller_that_disconnects_as_its_answer_arrives_holds_nothing(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    computed, told = threading.Event(), threading.Event()
    encode, cancel = UnaryForm.encode, Handle.cancel

    def encode_late(self: UnaryForm, answer: Answer) -> bytes:
        computed.set()
        assert told.wait(30)
        return encode(self, answer)

    def cancel_noted(self: Handle[Any], *, by_caller: bool = True) -> None:
        cancel(self, by_caller=by_caller)
        told.set()

    monkeypatch.setattr(UnaryForm, "encode", encode_late)
    monkeypatch.setattr(Handle, "cancel", cancel_noted)
    call = service.stub.Encode(request())
    await until(computed.is_set)
    call.cancel()
    await until(told.is_set)
    await until(lambda: service.in_flight.count == 0)
    assert holds_nothing(service)
    assert len(service.servicer._replies._waiting) == 0


async def test_a_stream_that_ends_as_an_answer_comes_holds_nothing(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    async def cancelled(handle: Handle[Any]) -> None:
        await done(handle)
        raise asyncio.CancelledError

    monkeypatch.setattr("headlight_service.frontends.grpc.calls.request_stream.done", cancelled)
    call = service.stub.EncodeStream(iter([pb.EncodeStreamRequest(id="a", encode=request())]))
    await call.code()
    await until(lambda: service.in_flight.count == 0)
    assert len(service.engine.batches) == 1
    assert holds_nothing(service)


async def test_a_call_cancelled_before_it_starts_does_no_work(serve: Serve) -> None:
    quotas = Quotas(10, 10, Clock())
    async with serve(quotas=quotas) as service:

        def leave(cancel: Callable[[], object]) -> None:
            cancel()

        wanted = Request(["a b"], size_bytes=10, client="search")
        handle = service.pipeline.submit(
            wanted, UnaryForm(service.model.limits), may_compute=True, on_disconnect=leave
        )
        with pytest.raises(CancelledError):
            handle.result()
        assert service.engine.batches == []
        assert holds_nothing(service)
        assert quotas.of("search").level == 100
