from __future__ import annotations

from typing import Any

import grpc
import pytest

from headlight import Client, errors
from headlight.client import call_flow
from headlight.pb import headlight_pb2 as pb
from headlight.wire.status_errors import (
    ERROR_CLASSES,
    LONGEST_DELAY_SECONDS,
    error_of_status,
    retry_after_seconds,
)
from tests.headlight.fake_server import FakeServicer, Refusal

FAILURES = [*ERROR_CLASSES, grpc.StatusCode.PERMISSION_DENIED]  # which has no class


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: code.name)
def test_failed_calls_and_failed_stream_requests_raise_the_same_error(
    client: Client, servicer: FakeServicer, code: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_flow, "FIRST_BACKOFF_SECONDS", 1e-4)
    servicer.limits.max_unary_response_bytes = 4096 + 200  # so that attention is streamed
    client.model()
    # Without retries one refusal remains; the stream takes it.
    repeated = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    attempts, again = (4, call_flow.MOST_RETRIES) if repeated else (1, 0)
    servicer.refusals.extend([Refusal(code, "the reason")] * (attempts + 1 + again))
    with pytest.raises(errors.HeadlightError, match="the reason") as of_call:
        client.encode("text")
    with pytest.raises(errors.HeadlightError, match="the reason") as of_request:
        client.attend("text")
    expected = ERROR_CLASSES.get(code, errors.HeadlightError)
    assert type(of_call.value) is type(of_request.value) is expected
    assert str(of_request.value) in str(of_call.value)  # which may say what to do
    if expected is errors.HeadlightError:
        assert str(of_call.value) == f"{code.name}: the reason"


@pytest.mark.parametrize(
    ("field", "problem", "shown"),
    [
        ("inputs[3].text", "is empty", "inputs[13].text"),
        ("inputs[0].ids.ids[7]", "is -1", "inputs[10].ids.ids[7]"),
        ("outputs.spans.given.inputs[1].spans[2]", "x", "outputs.spans.given.inputs[11].spans[2]"),
        ("evidence[1].spans[2].spans", "x", "evidence[1].spans[12].spans"),
        ("inputs", "9 of at most 8", "inputs"),
        ("outputs.attention.layers", "3 twice", "outputs.attention.layers"),
        ("", "Nothing with a field: at all", ""),
        ("", "", ""),
    ],
)
def test_the_field_index_counts_from_the_first_input(field: str, problem: str, shown: str) -> None:
    message = f"{field}: {problem}" if field else problem
    error = error_of_status(pb.Status(code=3, message=message, field=field), first_input=10)
    assert isinstance(error, errors.InvalidInput)
    assert (error.field, error.problem) == (shown, problem or "refused without a reason")
    assert str(error) == (f"{shown}: {error.problem}" if shown else error.problem)


def test_an_unknown_status_code_is_an_engine_error() -> None:
    assert type(error_of_status(pb.Status(code=99, message="what"))) is errors.EngineError


@pytest.mark.parametrize("metadata", [None, (), (("other", "1"),)])
def test_trailers_without_a_pushback_have_no_delay(metadata: Any) -> None:
    assert retry_after_seconds(metadata) is None


@pytest.mark.parametrize(
    ("pushback", "seconds"),
    [
        *(("20", 0.02), (b"20", 0.02)),
        *((each, None) for each in ("-1", "NaN", "1e9", "0x10", "", "٣", "1.5", "soon")),
        *((each, LONGEST_DELAY_SECONDS) for each in (str(2**31), str(2**64), "9" * 5000)),
    ],
)
def test_pushback_is_read_from_trailers_and_at_most_a_day(
    pushback: str | bytes, seconds: float | None
) -> None:
    assert retry_after_seconds((("grpc-retry-pushback-ms", pushback),)) == seconds


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(250, 0.25), (None, None), (2**32 - 1, LONGEST_DELAY_SECONDS)]
)
def test_a_refusal_in_a_stream_carries_the_retry_delay(
    milliseconds: int | None, seconds: float | None
) -> None:
    error = error_of_status(pb.Status(code=8, message="full", retry_after_ms=milliseconds))
    assert isinstance(error, errors.Overloaded)
    assert error.retry_after_seconds == seconds
