"""Requests that a busy server sheds are retried, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, Client, EngineError, Overloaded
from headlight.client.call_flow import MOST_RETRIES, Retries
from headlight.client.calls.stream_calls import Streamed
from headlight.errors import HeadlightError
from headlight.pb import headlight_pb2 as pb
from headlight.spec import TokensSpec
from headlight.wire.client_codec import from_model
from tests.headlight.fake_model import frames_of
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits, shed

TEXTS = [f"text number {index} " * (index % 4 + 1) for index in range(32)]  # 4 requests of 8


class Calls:
    """Stub method that records its calls."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.made: list[Any] = []

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        self.made.append(self.method(*arguments, **keywords))
        return self.made[-1]

    def future(self, *arguments: Any, **keywords: Any) -> Any:
        self.made.append(self.method.future(*arguments, **keywords))
        return self.made[-1]


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the clients' waits, without waiting."""
    found, delay = list[float](), Retries.delay

    def told(self: Retries, error: HeadlightError) -> float | None:
        seconds = delay(self, error)
        if seconds is None:
            return None
        found.append(seconds)
        return 1e-9

    monkeypatch.setattr(Retries, "delay", told)
    return found


def test_calls_shed_together_share_one_wait(
    client: Client, servicer: FakeServicer, delays: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = client.encode(TEXTS)
    assert len(servicer.encoded) == 4
    calls = Calls(client._stub.Encode)
    monkeypatch.setattr(client._stub, "Encode", calls)
    monkeypatch.setattr(
        client, "_pause", lambda seconds: [call.exception(30) for call in calls.made if seconds]
    )
    servicer.refusals.extend([shed(2000)] * 4)
    np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert (len(delays), len(servicer.encoded)) == (1, 12)


async def test_calls_shed_together_share_one_wait_with_asyncio(
    target: str, servicer: FakeServicer, delays: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncClient(target) as client:
        expected = await client.encode(TEXTS)
        calls = Calls(client._stub.Encode)

        async def pause(seconds: float) -> None:
            for call in calls.made if seconds else ():
                await call.code()

        monkeypatch.setattr(client._stub, "Encode", calls)
        monkeypatch.setattr(client, "_pause", pause, raising=False)
        servicer.refusals.extend([shed(2000)] * 4)
        np.testing.assert_array_equal(await client.encode(TEXTS), expected)
        assert (len(delays), len(servicer.encoded)) == (1, 12)


def test_only_the_shed_request_of_a_stream_is_sent_again(
    either: Client, servicer: FakeServicer, delays: list[float]
) -> None:
    expected = either.encode_tokens(TEXTS)
    before = len(servicer.encoded)
    servicer.refusals.append(shed(1))
    found = either.encode_tokens(TEXTS)
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert (len(servicer.encoded) - before, len(delays)) == (before + 1, 1)


@pytest.mark.usefixtures("delays")
def test_repeated_shedding_without_progress_ends_a_stream(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.refusals.extend([shed(1)] * (MOST_RETRIES + 1))
    with pytest.raises(Overloaded, match="the queue is full") as caught:
        client.attend("text")
    assert caught.value.retry_after_seconds is not None
    assert len(servicer.encoded) == MOST_RETRIES + 1


@pytest.mark.usefixtures("delays")
def test_a_permanent_refusal_is_an_error_at_once(client: Client, servicer: FakeServicer) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large for ever"))
    with pytest.raises(Overloaded, match="too large for ever"):
        client.attend("text")
    assert len(servicer.encoded) == 1


@pytest.fixture
def work() -> Streamed:
    """Return four requests."""
    model = from_model(FakeServicer(default_limits()).GetModel(pb.GetModelRequest(), None))
    return Streamed(model, "", TEXTS, "tokens", TokensSpec(), {}, details=False)


def refusal(request: pb.EncodeStreamRequest, delay_ms: int = 2000) -> pb.EncodeStreamResponse:
    error = pb.Status(code=8, message="the queue is full", retry_after_ms=delay_ms)
    return pb.EncodeStreamResponse(id=request.id, error=error)


def answer_all(work: Streamed, requests: Iterator[pb.EncodeStreamRequest]) -> None:
    servicer = FakeServicer(default_limits())
    for request in requests:
        for frame in frames_of(request.id, servicer.serve(request.encode)):
            work.receive(frame)


def test_no_requests_follow_a_shed_one_on_its_stream(work: Streamed) -> None:
    requests = work.requests()
    first, second = next(requests), next(requests)
    assert work.receive(refusal(second)) is False
    assert list(requests) == []
    answer_all(work, iter([first]))
    assert work.unanswered == 3
    with pytest.raises(Overloaded):
        work.finish()
    again = list(work.requests())
    assert [request.id for request in again] == ["1", "2", "3"]
    answer_all(work, iter(again))
    work.finish()
    assert [len(each.vectors) for each in work.result()]


def test_the_delay_counts_from_when_the_request_was_shed(
    work: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("headlight.client.calls.stream_calls.time.monotonic", lambda: now[0])
    for passed, left in ((0.5, 1.5), (3.0, 0.0)):
        work.receive(refusal(next(work.requests())))
        now[0] += passed
        with pytest.raises(Overloaded, match="the queue is full") as caught:
            work.finish()
        assert caught.value.retry_after_seconds == left


def without_an_answer(work: Streamed, requests: Iterator[pb.EncodeStreamRequest]) -> None:
    next(requests)
    work.finish()


def with_a_refusal_alone(work: Streamed, requests: Iterator[pb.EncodeStreamRequest]) -> None:
    next(requests)
    work.receive(refusal(next(requests)))
    work.finish()


def with_a_second_refusal(work: Streamed, requests: Iterator[pb.EncodeStreamRequest]) -> None:
    frame = refusal(next(requests))
    work.receive(frame)
    work.receive(frame)


@pytest.mark.parametrize("end", [without_an_answer, with_a_refusal_alone, with_a_second_refusal])
def test_a_stream_with_a_missing_answer_is_malformed(
    work: Streamed, end: Callable[[Streamed, Iterator[pb.EncodeStreamRequest]], None]
) -> None:
    with pytest.raises(EngineError, match="malformed"):
        end(work, work.requests())
