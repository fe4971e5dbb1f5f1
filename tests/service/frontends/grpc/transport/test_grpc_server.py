"""A failing serving thread of a gRPC server: detected, reported, replaced; its calls released."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest
from grpc import _server

from headlight_service.frontends.grpc.transport.grpc_server import MOST_LOSSES, Change
from tests.service.calls import request, until
from tests.service.conftest import Service

ENDS = "/fault/end"  # a call of this name ends the thread that serves all calls


@pytest.fixture(autouse=True)
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inject a fault that the real server does not have."""
    whole = _server._process_event_and_continue

    def process(state: Any, event: Any) -> bool:
        details = getattr(event, "call_details", None)
        if details is not None and details.method == ENDS.encode():
            raise ValueError("a secret")
        return bool(whole(state, event))

    monkeypatch.setattr(_server, "_process_event_and_continue", process)
    monkeypatch.setattr("threading.excepthook", lambda args: None)  # provoked by the test


class Seen:
    """Recorder of the server's observer callbacks, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def observe(self, name: str, change: Change) -> None:
        self.told.append(f"{name} {change.name}")


@pytest.fixture
def seen(service: Service) -> Seen:
    """Return what the server reports of itself."""
    seen = Seen()
    service.server._observe = seen.observe
    return seen


async def end(service: Service) -> None:
    """End the serving thread. This call gets no answer."""
    channel: Any = grpc.aio.insecure_channel(
        service.target, options=[("grpc.use_local_subchannel_pool", 1)]
    )
    call = channel.unary_unary(ENDS)(b"", timeout=60)
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    await channel.close()


async def answered(service: Service) -> bool:
    return bool((await service.stub.Encode(request(), wait_for_ready=True, timeout=60)).items)


async def test_a_failed_server_is_replaced(service: Service, seen: Seen) -> None:
    await end(service)
    await until(lambda: len(seen.told) == 2)
    assert seen.told == ["grpc LOST", "grpc RESTORED"]
    assert await answered(service), "at the same address"


async def test_calls_of_a_failed_server_are_released(service: Service) -> None:
    service.engine.gate.clear()
    pending = [service.stub.Encode(request()) for _ in range(3)]
    await service.started()
    stream = service.stub.EncodeStream()
    await until(lambda: service.in_flight.count == 4)
    await end(service)
    for call in pending:
        with pytest.raises(grpc.aio.AioRpcError):
            await call
    service.engine.gate.set()
    await until(lambda: service.in_flight.count == 0)
    assert service.metric("headlight_held_request_bytes") == 0
    await until(lambda: service.metric("headlight_queue_tokens") == 0)
    assert await answered(service)
    stream.cancel()


async def test_a_repeatedly_failing_server_is_given_up(
    service: Service, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headlight_service.frontends.grpc.transport.grpc_server.LOSS_SECONDS", 3600.0
    )
    for place in range(MOST_LOSSES):
        await end(service)
        await until(lambda place=place: len(seen.told) == 2 * place + 2)  # type: ignore[misc]
    assert seen.told[-2:] == ["grpc LOST", "grpc GIVEN_UP"]
    assert seen.told.count("grpc RESTORED") == MOST_LOSSES - 1


async def test_an_occasionally_failing_server_is_not_given_up(
    service: Service, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight_service.frontends.grpc.transport.grpc_server.LOSS_SECONDS", 0.0)
    for place in range(MOST_LOSSES + 1):
        await end(service)
        await until(lambda place=place: len(seen.told) == 2 * place + 2)  # type: ignore[misc]
    assert "grpc GIVEN_UP" not in seen.told


async def test_a_replacement_that_ends_before_it_is_watched_is_replaced(
    service: Service, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[bool]()
    whole = _server._serve

    def _serve(state: Any) -> None:  # threads are named after it
        if ended:
            whole(state)
        ended.append(True)

    server, make = service.server, service.server._make

    def make_and_join(bridge: Any) -> grpc.Server:
        made = make(bridge)
        start = made.start

        def start_and_join() -> None:
            before = {*threading.enumerate()}
            start()
            for thread in {*threading.enumerate()} - before:
                thread.join(60)

        if not ended:
            monkeypatch.setattr(made, "start", start_and_join)
        return made

    monkeypatch.setattr(server, "_make", make_and_join)
    monkeypatch.setattr(_server, "_serve", _serve)
    await end(service)
    await until(lambda: len(seen.told) == 4)
    assert seen.told == ["grpc LOST", "grpc RESTORED"] * 2
    assert await answered(service)


async def test_a_stopped_server_is_not_reported_as_failed(service: Service, seen: Seen) -> None:
    await service.server.stop(None)
    await asyncio.sleep(0)
    assert seen.told == []
