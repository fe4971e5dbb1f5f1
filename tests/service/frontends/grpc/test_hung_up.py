"""Who leaves, or is late, before the message has come has not sent an empty call: over a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.app.health import SERVICE
from headlight_service.frontends.grpc import request_timeout
from tests.service.calls import request, until
from tests.service.conftest import Serve

ENCODE = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Encode"}


@pytest.mark.parametrize(("seconds", "code"), [(None, "CANCELLED"), (0.1, "DEADLINE_EXCEEDED")])
async def test_how_a_call_ended_whose_message_never_came(
    serve: Serve, seconds: float | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        request_timeout, "HUNG_UP_SECONDS", 30.0
    )  # by far more than is needed: what comes interrupts it
    async with serve() as service:
        channel: Any = service.channel
        call = channel.stream_unary(f"/{SERVICE}/Encode")(timeout=seconds)
        await until(lambda: service.sample("grpc_server_started_total", **ENCODE) == 1)
        if seconds is None:
            call.cancel()
        await until(lambda: service.sample("grpc_server_handling_seconds_count", **ENCODE) == 1)
        assert service.sample("grpc_server_handled_total", **ENCODE, grpc_code=code) == 1


async def test_a_stream_that_ends_while_it_is_answered_ends_with_its_answer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is to be found out that the answer would not tell: whoever waits for the end, as clients do, is not kept."""
    monkeypatch.setattr(request_timeout, "HUNG_UP_SECONDS", 3600.0)
    async with serve() as service:
        service.engine.gate.clear()
        call = service.stub.EncodeStream()
        await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
        await call.done_writing()
        await service.started()
        [stream] = service.servicer._streams
        await until(lambda: stream._read_all)
        service.engine.gate.set()
        assert [frame.id async for frame in call] == ["a"]
        assert await call.code() is grpc.StatusCode.OK


async def test_a_stream_whose_requests_are_all_answered_ends_well_while_draining(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, go = asyncio.Event(), asyncio.Event()

    async def told() -> None:
        waiting.set()
        await go.wait()

    monkeypatch.setattr("headlight_service.frontends.grpc.encode_stream.no_more", told)
    async with serve() as service:
        call = service.stub.EncodeStream()
        await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
        assert (await call.read()).id == "a"
        [stream] = service.servicer._streams
        await until(lambda: not stream._open)  # it is told to the caller a moment before
        await call.done_writing()
        await waiting.wait()
        service.servicer.drain()
        go.set()
        assert await call.code() is grpc.StatusCode.OK


async def test_a_stream_that_its_caller_ended_wrongly_is_told_so_while_draining(serve: Serve) -> None:
    async with serve() as service:
        service.engine.gate.clear()
        call = service.stub.EncodeStream()
        await call.write(pb.EncodeStreamRequest(id="a", encode=request()))
        await call.write(pb.EncodeStreamRequest(id="", encode=request()))
        await service.started()
        [stream] = service.servicer._streams
        await until(lambda: stream._read_all)
        service.servicer.drain()
        service.engine.gate.set()
        assert (await call.read()).id == "a"
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
