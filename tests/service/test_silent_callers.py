"""Calls that end without a message, or never send one: over a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from service.health import SERVICE
from tests.service.calls import refused
from tests.service.conftest import Serve

ENCODE = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Encode"}


async def test_a_call_without_a_message_is_answered_and_counted(serve: Serve) -> None:
    async with serve() as service:
        channel: Any = service.channel
        for method in ("Encode", "Tokenize", "GetModel"):
            call = channel.stream_unary(f"/{SERVICE}/{method}")(iter([]), timeout=30)
            error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
            assert error.details() == "the call ended without a message; send one"
        call = channel.stream_stream("/grpc.health.v1.Health/Watch")(iter([]), timeout=30)
        await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT)
        assert service.sample("grpc_server_started_total", **ENCODE) == 1
        assert service.sample("grpc_server_handled_total", **ENCODE, grpc_code="INVALID_ARGUMENT") == 1


async def test_who_calls_and_sends_nothing_is_not_waited_for_at_the_end(serve: Serve) -> None:
    async with serve() as service:
        channel: Any = service.channel
        silent = channel.stream_unary(f"/{SERVICE}/Encode")()
        while service.sample("grpc_server_started_total", **ENCODE) != 1:
            await asyncio.sleep(0)
        assert service.in_flight.idle.is_set()
        silent.cancel()
        while service.sample("grpc_server_handling_seconds_count", **ENCODE) != 1:
            await asyncio.sleep(0)
