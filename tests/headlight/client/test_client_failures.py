from __future__ import annotations

import grpc
import numpy as np
import pytest

from headlight import (
    AttentionSpec,
    Client,
    DeadlineExceeded,
    EngineError,
    InvalidInput,
    NotFound,
    Overloaded,
    Unavailable,
)
from headlight.client.call_flow import Retries
from headlight.pb import headlight_pb2 as pb
from tests.headlight.conftest import Open
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer, Refusal

TEXTS = [f"text number {index} " * (index % 4 + 1) for index in range(50)]


@pytest.fixture
def client(either: Client) -> Client:
    return either


def test_limits_are_fetched_once_and_again_after_a_refusal(
    client: Client, servicer: FakeServicer
) -> None:
    client.encode("one")
    client.encode("two")
    assert servicer.described == 1
    with pytest.raises(InvalidInput):
        client.encode("")  # may be due to outdated limits
    client.encode("three")
    assert servicer.described == 2


def test_an_unknown_model_is_not_found(open_client: Open) -> None:
    with pytest.raises(NotFound, match=r"^model: .*there is fake$"):
        open_client(model="other").encode("text")


def test_unavailable_is_retried(client: Client, servicer: FakeServicer) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    assert client.encode("text").shape == (DIM,)
    assert len(servicer.encoded) == 2


def test_a_large_request_is_retried(client: Client, servicer: FakeServicer) -> None:
    client.model()
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    client.encode(["x" * 900_000], truncate="end")
    assert len(servicer.encoded) == 2


def test_a_refused_stream_request_is_an_error_and_the_client_stays_usable(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.INTERNAL, "error 4f2a"))
    with pytest.raises(EngineError):  # the status of one request: the stream itself is fine
        client.attend("text")
    assert client.attend("text").layers == (0, 1, 2)


def test_unanswered_requests_are_sent_again_on_a_new_stream(
    client: Client, servicer: FakeServicer
) -> None:
    expected = client.encode_tokens(TEXTS)
    before = len(servicer.encoded)
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    again = client.encode_tokens(TEXTS)
    assert all(np.array_equal(one, other) for one, other in zip(again, expected, strict=True))
    # Only the unanswered requests are sent again.
    assert 2 * before < len(servicer.encoded) <= 3 * before


def test_attention_pieces_are_retried_until_the_first_has_arrived(
    client: Client, servicer: FakeServicer
) -> None:
    spec = AttentionSpec()
    expected = list(client.attention_pieces("text", spec))
    servicer.refusals.extend([Refusal(grpc.StatusCode.UNAVAILABLE, "draining")] * 2)
    found = list(client.attention_pieces("text", spec))
    assert [piece.rows for piece in found] == [piece.rows for piece in expected]
    assert len(servicer.encoded) == 4

    def broken(frames: list[pb.EncodeStreamResponse]) -> list[pb.EncodeStreamResponse]:
        error = pb.Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message="draining")
        return [*frames[:2], pb.EncodeStreamResponse(id=frames[0].id, error=error)]

    servicer.change_frames = broken
    with pytest.raises(Unavailable):  # yielded pieces cannot be taken back
        list(client.attention_pieces("text", spec))
    assert len(servicer.encoded) == 5


def test_retry_jitter_never_exceeds_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headlight.client.call_flow.time.monotonic", lambda: 100.0)
    given_up: set[float] = set()
    for advised in (0.5, 0.79, 0.85, 0.95, 0.99):
        for _ in range(50):
            waited = Retries(101.0).delay(Overloaded("the queue is full", advised))
            if waited is None:
                given_up.add(advised)
            else:
                assert advised <= waited < 1.0
    assert 0.99 in given_up
    assert not given_up & {0.5, 0.79}, "with the longest spread it would have been in time"


def test_overload_without_a_delay_is_not_retried(client: Client, servicer: FakeServicer) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "the answer is too large"))
    with pytest.raises(Overloaded):
        client.encode("text")
    assert len(servicer.encoded) == 1


def test_an_oversized_message_is_an_error_of_the_caller(
    client: Client, servicer: FakeServicer
) -> None:
    words = "SERVER: Received message larger than max (5242885 vs. 4194304)"
    servicer.refusals.append(Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, words))
    with pytest.raises(InvalidInput, match=r"larger than max .* send or ask for less"):
        client.encode("text")


def test_the_timeout_bounds_the_whole_method(open_client: Open) -> None:
    with pytest.raises(DeadlineExceeded):
        open_client(timeout=0.0).encode(TEXTS)
