"""The end of a stream with a refused request.

The server ends it, unless more answers are pending.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest

from headlight import AsyncClient, AttentionSpec, Client, EngineError, InvalidInput
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits

SPEC = AttentionSpec()


@dataclasses.dataclass
class Holding(FakeServicer):
    """Fake that ends a stream only after the client began to wait for its end, or cancelled."""

    waited_for: threading.Event = dataclasses.field(default_factory=threading.Event)

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        context.add_callback(self.waited_for.set)
        yield from super().EncodeStream(requests, context)
        assert self.waited_for.wait(50)


@dataclasses.dataclass
class Call:
    """Stream of either client that records when its end is awaited,
    unless that is disabled.
    """

    call: Any
    waits: Callable[[], object]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.call)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.call.__aiter__()  # type: ignore[no-any-return]

    def exception(self, timeout: float) -> Any:
        self.waits()
        return self.call.exception(timeout)

    def code(self) -> Any:
        self.waits()
        return self.call.code()

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self.call.add_done_callback(callback)

    def cancel(self) -> bool:
        return bool(self.call.cancel())


@pytest.fixture
def servicer() -> Holding:
    limits = default_limits()
    limits.max_unary_response_bytes = 64  # so that all answers are streamed
    return Holding(limits)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlight.client.client_flows.LINGER_SECONDS", 50)


def watch(client: Any, monkeypatch: pytest.MonkeyPatch, waits: Callable[[], object]) -> list[Any]:
    """Record the streams that a client starts from now on."""
    calls, begin = [], client._stub.EncodeStream

    def begun(*arguments: Any, **keywords: Any) -> Call:
        calls.append(begin(*arguments, **keywords))
        return Call(calls[-1], waits)

    monkeypatch.setattr(client._stub, "EncodeStream", begun)
    return calls


async def pieces_of(client: AsyncClient, text: str = "") -> list[Any]:
    return [piece async for piece in client.attention_pieces(text, SPEC)]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "ask", [lambda client: client.attend(""), lambda client: [*client.attention_pieces("", SPEC)]]
)
def test_a_stream_with_only_a_refusal_left_is_not_cancelled(
    client: Client, servicer: Holding, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], Any]
) -> None:
    calls = watch(client, monkeypatch, servicer.waited_for.set)
    with pytest.raises(InvalidInput):
        ask(client)
    assert calls[0].code() is grpc.StatusCode.OK


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("ask", [lambda client: client.attend(""), pieces_of])
async def test_a_stream_with_only_a_refusal_left_is_not_cancelled_with_asyncio(
    target: str,
    servicer: Holding,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[AsyncClient], Awaitable[Any]],
) -> None:
    async with AsyncClient(target) as client:
        calls = watch(client, monkeypatch, servicer.waited_for.set)
        with pytest.raises(InvalidInput):
            await ask(client)
        assert await calls[0].code() is grpc.StatusCode.OK


def test_a_server_that_does_not_end_a_stream_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight.client.client_flows.LINGER_SECONDS", 0.01)
    calls = watch(client, monkeypatch, lambda: None)
    with pytest.raises(InvalidInput):
        client.attend("")
    assert calls[0].code() is grpc.StatusCode.CANCELLED


async def test_a_server_that_does_not_end_a_stream_is_not_waited_for_with_asyncio(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight.client.client_flows.LINGER_SECONDS", 0.01)
    async with AsyncClient(target) as client:
        calls = watch(client, monkeypatch, lambda: None)
        with pytest.raises(InvalidInput):
            await client.attend("")
        assert await calls[0].code() is grpc.StatusCode.CANCELLED


@pytest.mark.usefixtures("patient")
def test_a_stream_with_more_in_flight_is_cancelled(
    client: Client, servicer: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.INTERNAL, "error 4f2a"))
    waits: list[None] = []
    calls = watch(client, monkeypatch, lambda: waits.append(None))
    with pytest.raises(EngineError):
        client.attention(["a", "b", "c", "d"], SPEC)
    assert (calls[0].code(), waits) == (grpc.StatusCode.CANCELLED, [])


@pytest.mark.usefixtures("patient")
async def test_a_stream_with_more_in_flight_is_cancelled_with_asyncio(
    target: str, servicer: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.INTERNAL, "error 4f2a"))
    waits: list[None] = []
    async with AsyncClient(target) as client:
        calls = watch(client, monkeypatch, lambda: waits.append(None))
        with pytest.raises(EngineError):
            await client.attention(["a", "b", "c", "d"], SPEC)
        assert (await calls[0].code(), waits) == (grpc.StatusCode.CANCELLED, [])


@pytest.mark.parametrize(
    ("ask", "streams"),  # several texts: the first stream has both refusals
    [
        (lambda client: client.attention(["a", "b", "c"], SPEC), 2),
        (lambda client: [*client.attention_pieces("a", SPEC)], 3),
    ],
)
def test_no_stream_is_open_while_a_retry_waits(
    client: Client,
    servicer: Holding,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Client], Any],
    streams: int,
) -> None:
    """Otherwise the server would compute answers that are discarded and requested again."""
    open_ones: list[bool] = []
    calls = watch(client, monkeypatch, lambda: None)
    client.model()
    servicer.waited_for.set()
    monkeypatch.setattr(
        client, "_pause", lambda seconds: open_ones.extend(call.is_active() for call in calls)
    )
    servicer.refusals.extend([Refusal(grpc.StatusCode.UNAVAILABLE, "draining")] * 2)
    ask(client)
    assert len(calls) == streams
    assert open_ones
    assert not any(open_ones)


@pytest.mark.parametrize(
    ("ask", "streams"),
    [
        (lambda client: client.attention(["a", "b", "c"], SPEC), 2),
        (lambda client: pieces_of(client, "a"), 3),
    ],
)
async def test_no_stream_is_open_while_a_retry_waits_with_asyncio(
    target: str,
    servicer: Holding,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[AsyncClient], Awaitable[Any]],
    streams: int,
) -> None:
    open_ones: list[bool] = []
    servicer.waited_for.set()
    async with AsyncClient(target) as client:
        await client.model()
        calls = watch(client, monkeypatch, lambda: None)

        async def paused(seconds: float) -> None:
            open_ones.extend(not call.done() for call in calls)

        monkeypatch.setattr(client, "_pause", paused)
        servicer.refusals.extend([Refusal(grpc.StatusCode.UNAVAILABLE, "draining")] * 2)
        await ask(client)
    assert len(calls) == streams
    assert open_ones
    assert not any(open_ones)
