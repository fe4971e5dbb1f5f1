"""Calls that end without a message, or never send one, over a real socket."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import grpc
import pytest

from headlight_service.app.health import SERVICE
from headlight_service.frontends import stall_timeout
from headlight_service.frontends.grpc import interceptor, peer_timeouts
from headlight_service.frontends.grpc.transport import call_threads
from tests.service.calls import refused, request
from tests.service.conftest import Serve, Service
from tests.service.raw import closed_window

pytestmark = pytest.mark.usefixtures("steady")
ENCODE = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Encode"}


async def test_a_call_without_a_message_is_answered_and_counted(service: Service) -> None:
    channel: Any = service.channel
    for method in ("Encode", "Tokenize", "GetModel"):
        call = channel.stream_unary(f"/{SERVICE}/{method}")(iter([]), timeout=30)
        error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
        assert error.details() == "the call ended without a message; send one"
    call = channel.stream_stream("/grpc.health.v1.Health/Watch")(iter([]), timeout=30)
    await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT)
    assert service.sample("grpc_server_started_total", **ENCODE) == 1
    assert service.sample("grpc_server_handled_total", **ENCODE, grpc_code="INVALID_ARGUMENT") == 1


async def test_shutdown_does_not_wait_for_a_call_without_a_message(service: Service) -> None:
    channel: Any = service.channel
    silent = channel.stream_unary(f"/{SERVICE}/Encode")()
    while service.sample("grpc_server_started_total", **ENCODE) != 1:
        await asyncio.sleep(0)
    assert service.in_flight.count == 0
    silent.cancel()
    while service.sample("grpc_server_handling_seconds_count", **ENCODE) != 1:
        await asyncio.sleep(0)


async def test_one_probe_too_many_ends_the_oldest(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptor, "PROBE_SECONDS", 600.0)
    monkeypatch.setattr(call_threads, "MOST_PROBES", 2)
    async with serve() as service:
        channel: Any = service.channel
        check = channel.stream_unary("/grpc.health.v1.Health/Check")
        started = {"grpc_service": "grpc.health.v1.Health", "grpc_method": "Check"}
        calls = []
        for count in range(1, 4):
            calls.append(check(timeout=300))
            while (
                service.sample("grpc_server_started_total", grpc_type="unary", **started) != count
            ):
                await asyncio.sleep(0)
        error = await refused(calls[0], grpc.StatusCode.DEADLINE_EXCEEDED)
        assert "did not arrive" in (error.details() or "")
        assert not any(call.done() for call in calls[1:])
        for call in calls[1:]:
            call.cancel()


@pytest.mark.parametrize("sent", [0, 1000])
async def test_an_incomplete_message_times_out(serve: Serve, sent: int) -> None:
    async with serve(stall_seconds=0.2) as service, closed_window(service.target) as client:
        for _ in range(3):
            client.begin("Encode", 2000, sent)
        while (
            service.sample("grpc_server_handled_total", **ENCODE, grpc_code="DEADLINE_EXCEEDED")
            != 3
        ):
            await asyncio.sleep(0)
        assert service.in_flight.count == 0
        assert not client.hung_up.is_set(), "other calls on the connection go on"


async def test_a_timed_out_request_gets_advice(serve: Serve) -> None:
    async with serve(stall_seconds=0.2) as service:
        channel: Any = service.channel
        error = await refused(
            channel.stream_unary(f"/{SERVICE}/Encode")(), grpc.StatusCode.DEADLINE_EXCEEDED
        )
        told = (
            r"the request did not arrive within (\d+(?:\.\d+)?) s; send less at once, "
            r"or ask for a longer --stall-seconds"
        )
        found = re.fullmatch(told, error.details() or "")
        assert found is not None
        assert float(found[1]) >= 0.25 + 0.2, (
            "its time, and once more to see what its connection brings"
        )
        assert (await service.stub.Encode(request())).items


async def test_a_message_may_be_late_while_its_connection_has_enough_throughput(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, enough = iter((0, 20, 40, 60, 60)), 10
    # So that only its throughput counts, however late it is checked.
    monkeypatch.setattr(peer_timeouts, "AT_ONCE", 10**6)
    async with serve(stall_seconds=0.1) as service, closed_window(service.target) as client:
        monkeypatch.setattr(peer_timeouts, "bytes_moved", lambda: {client.name: (0, next(came))})
        # Only now: the time for the largest message alone is known.
        monkeypatch.setattr(stall_timeout, "PACE_BYTES", enough)
        client.begin("Encode", 2000, 1)
        while (
            service.sample("grpc_server_handled_total", **ENCODE, grpc_code="DEADLINE_EXCEEDED")
            != 1
        ):
            await asyncio.sleep(0)
        assert next(came, None) is None, "as long as it brought enough"
