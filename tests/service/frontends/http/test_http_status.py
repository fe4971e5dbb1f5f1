"""The table of HTTP statuses: every kind of failure, with its retry headers."""

from __future__ import annotations

import pytest

from headlight import errors
from headlight.errors import Code, HeadlightError
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.frontends.failure import failure_of
from headlight_service.frontends.http.http_status import (
    STATUS_BY_CODE,
    ErrorResponse,
    error_response,
    http_error,
)

NEVER = {"x-should-retry": "false"}


def of(error: Exception) -> ErrorResponse:
    return error_response(failure_of(error, lambda: {"request_id": "r"}))


def test_every_kind_of_failure_has_a_status() -> None:
    assert set(STATUS_BY_CODE) == set(Code)


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (errors.InvalidInput("inputs", "x"), 400, NEVER),
        (errors.Unauthenticated("x"), 401, NEVER),
        (errors.NotFound("x"), 404, NEVER),
        (
            errors.Overloaded("x", 0.25),
            429,
            {"retry-after": "1", "retry-after-ms": "250", "x-should-retry": "true"},
        ),
        (
            Shed("x", Shortage.QUOTA, 3600.0),
            429,
            {"retry-after": "60", "retry-after-ms": "60000", "x-should-retry": "true"},
        ),
        (errors.Overloaded("x"), 413, NEVER),
        (errors.HostFull(), 413, NEVER),
        (MemoryError(), 413, NEVER),
        (
            errors.Unavailable("x"),
            503,
            {"retry-after": "1", "retry-after-ms": "1000", "x-should-retry": "true"},
        ),
        (errors.DeadlineExceeded("x"), 504, NEVER),
        (errors.EngineError("x"), 500, {}),
        (errors.NotFinite("x"), 500, NEVER),
        (errors.BundleError("x"), 500, {}),
        (ValueError("secret"), 500, {}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_statuses_and_retry_headers(error: Exception, status: int, retry: dict[str, str]) -> None:
    refusal = of(error)
    assert (refusal.status, dict(refusal.retry_headers)) == (status, retry)
    assert "secret" not in refusal.message
    if isinstance(error, HeadlightError):
        assert refusal.message == error.message


@pytest.mark.parametrize(
    ("status", "retry"), [(404, NEVER), (405, NEVER), (413, NEVER), (415, NEVER), (408, {})]
)
def test_refusals_of_http_itself(status: int, retry: dict[str, str]) -> None:
    assert dict(http_error(status, "x").refusal.retry_headers) == retry
