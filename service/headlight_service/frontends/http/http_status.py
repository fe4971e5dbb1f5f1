"""Mapping of failures to HTTP statuses and retry headers: the one table of all dialects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headlight.errors import Code
from headlight.refusals import CONTRACT, Edge
from headlight_service.frontends.failure import Failure

STATUS_BY_CODE: Mapping[Code, int] = {
    Code.INVALID_INPUT: 400,
    Code.UNAUTHENTICATED: 401,
    Code.NOT_FOUND: 404,
    Code.OVERLOADED: 429,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
    Code.INTERNAL: 500,
    Code.BUNDLE: 500,  # start-up only; never sent
}
# A resource is short and no wait helps: the request is too large for this service as it is.
TOO_LARGE = 413
LONGEST_RETRY_MS = 60_000  # openai's client for Python does not retry at all after 120 s
UNAVAILABLE_RETRY_MS = 1000
# Statuses after which clients may send the request again, if they do so by themselves.
RETRIED = {408, 429, 500, 503}
Headers = tuple[tuple[str, str], ...]


class ErrorResponse(NamedTuple):
    """Answer to a failed request, for a dialect to encode.

    Attributes:
        status: the HTTP status.
        message: the problem and its remedy.
        code: the kind of failure; None: one of HTTP itself, such as an unknown path.
        reason: one of a closed set of names.
        field: the request's field at fault; empty: none.
        retry_after_ms: delay before a retry; None: none is known.
        repeats: whether the same request fails again.
        headers: further headers.
        request_id: the request's id in the log.
        metadata: the reason in detail, and its numbers.
    """

    status: int
    message: str
    code: Code | None = None
    reason: str = ""
    field: str = ""
    retry_after_ms: int | None = None
    repeats: bool = True
    headers: Headers = ()
    request_id: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})

    @property
    def retry_headers(self) -> Headers:
        """Headers that tell clients whether and when to retry."""
        if self.repeats:
            return (("x-should-retry", "false"),)
        if self.retry_after_ms is None:
            return ()
        delay_ms = min(self.retry_after_ms, LONGEST_RETRY_MS)
        return (
            ("retry-after", str(max(1, math.ceil(delay_ms / 1000)))),
            ("retry-after-ms", str(delay_ms)),
            ("x-should-retry", "true"),
        )


class HttpError(Exception):
    """A refusal of HTTP itself, or of a dialect."""

    def __init__(self, refusal: ErrorResponse) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def http_error(status: int, message: str, **fields: object) -> HttpError:
    """Return the error of a request that is refused with this status; fields: of ErrorResponse."""
    fields.setdefault("repeats", status not in RETRIED)
    return HttpError(ErrorResponse(status, message, **fields))  # type: ignore[arg-type]


def status_of(code: Code, retry_after_ms: int | None = None) -> int:
    """Return the status of a kind of failure."""
    if code is Code.OVERLOADED and retry_after_ms is None:
        return TOO_LARGE
    return STATUS_BY_CODE[code]


def error_response(failure: Failure, edge: Edge = CONTRACT) -> ErrorResponse:
    """Return the refusal of a failed request, in the words of a dialect."""
    problem, delay_ms = failure.refusal, failure.retry_after_ms
    status = status_of(problem.code, delay_ms)
    headers: Headers = ()
    if problem.code is Code.UNAUTHENTICATED:
        headers = (("www-authenticate", "Bearer"),)
    if problem.code is Code.UNAVAILABLE:
        headers, delay_ms = (("connection", "close"),), delay_ms or UNAVAILABLE_RETRY_MS
    return ErrorResponse(
        status,
        edge.message(problem),
        problem.code,
        failure.label,
        edge.name(problem.path) if problem.code is Code.INVALID_INPUT else "",
        delay_ms,
        failure.repeats or status not in RETRIED,
        headers,
        metadata=failure.metadata,
    )
