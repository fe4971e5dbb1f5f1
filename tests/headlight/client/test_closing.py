"""Errors of calls that closing the client, or Ctrl-C, interrupts."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headlight import AsyncClient, AttentionSpec, Client, Unavailable
from headlight.client.call_flow import Retries
from headlight.errors import HeadlightError
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, default_limits, shed

CLOSED = "the client is closed; make another"
TEXTS = ["a text"] * 40


@dataclasses.dataclass
class Holding(FakeServicer):
    """Fake that answers only GetModel before its caller has disconnected."""

    begun: threading.Semaphore = dataclasses.field(default_factory=lambda: threading.Semaphore(0))

    def hold(self, context: Any) -> None:
        gone = threading.Event()
        assert context.add_callback(gone.set)
        self.begun.release()
        assert gone.wait(50)

    def Encode(self, request: pb.EncodeRequest, context: Any) -> pb.EncodeResponse:
        self.hold(context)
        return super().Encode(request, context)

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        self.hold(context)
        return super().EncodeStream(requests, context)


@pytest.fixture
def servicer() -> Holding:
    return Holding(default_limits())


async def pieces_of(client: AsyncClient) -> list[Any]:
    return [piece async for piece in client.attention_pieces("a", AttentionSpec())]


BLOCKING: list[Callable[[Any], Any]] = [
    lambda client: client.encode(["a"]),
    lambda client: client.attention_bytes("a", AttentionSpec()),
    lambda client: client.attend("a"),
    lambda client: list(client.attention_pieces("a", AttentionSpec())),
]
AWAITED: list[Callable[[AsyncClient], Awaitable[Any]]] = [*BLOCKING[:3], pieces_of]


@pytest.mark.parametrize("ask", BLOCKING)
def test_a_call_in_flight_raises_the_closed_client_error(
    either: Any, servicer: Holding, ask: Callable[[Any], Any]
) -> None:
    either.model()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, either)
        assert servicer.begun.acquire(timeout=30)
        either.close()
        with pytest.raises(ValueError, match=CLOSED):
            running.result(30)


@pytest.mark.parametrize("ask", AWAITED)
async def test_a_cancelled_task_stays_cancelled(
    target: str, servicer: Holding, ask: Callable[[AsyncClient], Awaitable[Any]]
) -> None:
    async with AsyncClient(target) as client:
        await client.model()
        running = asyncio.ensure_future(ask(client))
        assert await asyncio.to_thread(servicer.begun.acquire, timeout=30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ask(client)


async def test_a_call_cancelled_by_nobody_is_a_lost_connection(target: str) -> None:
    async with AsyncClient(target) as client:
        with pytest.raises(Unavailable, match="the connection was lost"), client._errors():
            raise asyncio.CancelledError


@pytest.fixture
def delayed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event, set once a client is about to wait for a retry."""
    waiting, delay = threading.Event(), Retries.delay

    def told(self: Retries, error: HeadlightError) -> float | None:
        waiting.set()
        return delay(self, error)

    monkeypatch.setattr(Retries, "delay", told)
    return waiting


class Shedding(FakeServicer):
    """Fake that is overloaded for an hour."""

    def __init__(self) -> None:
        super().__init__(default_limits())

    def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
        raise shed(3_600_000)


class TestWaiting:
    @pytest.fixture
    def servicer(self) -> Shedding:
        return Shedding()

    @pytest.mark.parametrize("ask", BLOCKING)
    def test_a_waiting_retry_does_not_outlast_the_client(
        self, either: Any, delayed: threading.Event, ask: Callable[[Any], Any]
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ask, either)
            assert delayed.wait(30)
            either.close()
            with pytest.raises(ValueError, match=CLOSED):
                running.result(30)


def test_ctrl_c_cancels_the_call_in_flight(
    client: Client, servicer: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, encode = [], client._stub.Encode

    class Encode:
        @staticmethod
        def future(*arguments: Any, **keywords: Any) -> Any:
            calls.append(encode.future(*arguments, **keywords))
            return calls[-1]

    def interrupted(call: Any) -> Any:
        assert servicer.begun.acquire(timeout=30)
        raise KeyboardInterrupt

    client.model()
    monkeypatch.setattr(client._stub, "Encode", Encode)
    monkeypatch.setattr("headlight.client.sync_client.response_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.encode(TEXTS)
    assert len(calls) == 4
    assert [call.cancelled() for call in calls] == [True] * 4
