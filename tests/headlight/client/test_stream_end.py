"""The end of a stream with a refused request.

The server ends it, unless more answers are pending.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest

from headlight import AttentionSpec, Client, EngineError, InvalidInput
from headlight.pb import headlight_pb2 as pb
from tests.headlight.blocking import Blocking
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


def watch(
    either: Blocking, monkeypatch: pytest.MonkeyPatch, waits: Callable[[], object]
) -> list[Any]:
    """Record the streams that a client starts from now on."""
    calls, stub = [], either.client._stub
    begin = stub.EncodeStream

    def begun(*arguments: Any, **keywords: Any) -> Call:
        calls.append(begin(*arguments, **keywords))
        return Call(calls[-1], waits)

    monkeypatch.setattr(stub, "EncodeStream", begun)
    return calls


def pieces(client: Any, text: str) -> list[Any]:
    return list(client.attention_pieces(text, SPEC))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "ask", [lambda client: client.attend(""), lambda client: pieces(client, "")]
)
def test_a_stream_with_only_a_refusal_left_is_not_cancelled(
    either: Any, servicer: Holding, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any], Any]
) -> None:
    calls = watch(either, monkeypatch, servicer.waited_for.set)
    with pytest.raises(InvalidInput):
        ask(either)
    assert either.result(calls[0].code()) is grpc.StatusCode.OK


def test_a_server_that_does_not_end_a_stream_is_not_waited_for(
    either: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight.client.client_flows.LINGER_SECONDS", 0.01)
    calls = watch(either, monkeypatch, lambda: None)
    with pytest.raises(InvalidInput):
        either.attend("")
    assert either.result(calls[0].code()) is grpc.StatusCode.CANCELLED


@pytest.mark.usefixtures("patient")
def test_a_stream_with_more_in_flight_is_cancelled(
    either: Any, servicer: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.INTERNAL, "error 4f2a"))
    waits: list[None] = []
    calls = watch(either, monkeypatch, lambda: waits.append(None))
    with pytest.raises(EngineError):
        either.attention(["a", "b", "c", "d"], SPEC)
    assert (either.result(calls[0].code()), waits) == (grpc.StatusCode.CANCELLED, [])


@pytest.mark.parametrize(
    ("ask", "streams"),  # several texts: the first stream has both refusals
    [
        (lambda client: client.attention(["a", "b", "c"], SPEC), 2),
        (lambda client: pieces(client, "a"), 3),
    ],
)
def test_no_stream_is_open_while_a_retry_waits(
    either: Any,
    servicer: Holding,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Any], Any],
    streams: int,
) -> None:
    """Otherwise the server would compute answers that are discarded and requested again."""
    open_ones: list[bool] = []
    either.model()
    calls = watch(either, monkeypatch, lambda: None)
    servicer.waited_for.set()

    def look(seconds: float) -> None:
        open_ones.extend(not call.done() for call in calls)

    async def look_as_well(seconds: float) -> None:
        look(seconds)

    blocking = isinstance(either.client, Client)
    monkeypatch.setattr(either.client, "_pause", look if blocking else look_as_well)
    servicer.refusals.extend([Refusal(grpc.StatusCode.UNAVAILABLE, "draining")] * 2)
    ask(either)
    assert len(calls) == streams
    assert open_ones
    assert not any(open_ones)
