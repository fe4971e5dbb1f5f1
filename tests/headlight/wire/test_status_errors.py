from __future__ import annotations

import grpc
import pytest

from headlight import Client, errors
from headlight.client import call_flow
from headlight.pb import headlight_pb2 as pb
from headlight.wire.status_errors import ERROR_CLASSES, error_of_status, retry_after_seconds
from tests.headlight.fake_server import FakeServicer, Refusal

FAILURES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
WITHOUT_A_CLASS = {
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
}


def test_every_status_code_is_mapped_or_listed_as_unmapped() -> None:
    assert set(ERROR_CLASSES) | WITHOUT_A_CLASS == set(FAILURES)
    served = {
        errors.InvalidInput,
        errors.Unauthenticated,
        errors.NotFound,
        errors.Overloaded,
        errors.Unavailable,
        errors.DeadlineExceeded,
        errors.EngineError,
    }
    assert set(ERROR_CLASSES.values()) == served


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


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        (None, None),
        ((), None),
        ((("other", "1"),), None),
        ((("grpc-retry-pushback-ms", "20"),), 0.02),
        ((("grpc-retry-pushback-ms", b"20"),), 0.02),
        ((("grpc-retry-pushback-ms", "-1"),), None),
        ((("grpc-retry-pushback-ms", "soon"),), None),
    ],
)
def test_pushback_is_read_from_trailers(
    metadata: tuple[tuple[str, str | bytes], ...] | None, seconds: float | None
) -> None:
    assert retry_after_seconds(metadata) == seconds


def test_a_refusal_in_a_stream_carries_the_retry_delay() -> None:
    overloaded = error_of_status(pb.Status(code=8, message="the queue is full", retry_after_ms=250))
    assert isinstance(overloaded, errors.Overloaded)
    assert overloaded.retry_after_seconds == 0.25
    never = error_of_status(pb.Status(code=8, message="too large"))
    assert isinstance(never, errors.Overloaded)
    assert never.retry_after_seconds is None
