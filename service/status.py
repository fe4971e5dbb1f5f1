"""From errors to gRPC statuses: the one table, and the one place that decides what a caller may read of a failure."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Mapping
from typing import NamedTuple

import grpc

from headlight.errors import Code, HeadlightError, Overloaded
from service.logs import describe

log = logging.getLogger("service.status")

STATUS_BY_CODE: Mapping[Code, grpc.StatusCode] = {
    Code.INVALID_INPUT: grpc.StatusCode.INVALID_ARGUMENT,
    Code.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Code.INTERNAL: grpc.StatusCode.INTERNAL,
    Code.BUNDLE: grpc.StatusCode.INTERNAL,  # start-up only; never sent
}
# Clients retry RESOURCE_EXHAUSTED only where this is present: gRPC has that status for messages too large to ever pass.
PUSHBACK = "grpc-retry-pushback-ms"


class Refusal(NamedTuple):
    """How a failed request is answered."""

    status: grpc.StatusCode
    message: str
    retry_after_ms: int | None
    reason: Code

    @property
    def number(self) -> int:
        """The status as google.rpc.Code."""
        return int(self.status.value[0])

    @property
    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        """What tells gRPC clients when to try again."""
        return () if self.retry_after_ms is None else ((PUSHBACK, str(self.retry_after_ms)),)


def refusal(error: Exception) -> Refusal:
    """The answer to a failure. One that is not Headlight's own is logged under an id, which is all the caller gets."""
    if isinstance(error, HeadlightError):
        return Refusal(STATUS_BY_CODE[error.code], error.message, _retry_after_ms(error), error.code)
    error_id = uuid.uuid4().hex[:12]
    log.error("unexpected failure", extra={"event": "unexpected_failure", "error_id": error_id, **describe(error)})
    message = f"internal error; see error id {error_id} in the server's log"
    return Refusal(grpc.StatusCode.INTERNAL, message, None, Code.INTERNAL)


def _retry_after_ms(error: HeadlightError) -> int | None:
    if isinstance(error, Overloaded) and error.retry_after_seconds is not None:
        return math.ceil(1000 * error.retry_after_seconds)
    return None
