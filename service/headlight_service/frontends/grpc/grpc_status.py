"""Mapping of failures to gRPC statuses."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status

from headlight import refusals
from headlight.errors import Code, Reason
from headlight.pb import headlight_pb2 as pb
from headlight.refusals import CONTRACT, Edge
from headlight_service.frontends.failure import failure_of
from headlight_service.telemetry.request_id import REQUEST_ID, about
from headlight_service.telemetry.request_trace import RequestTrace

log = logging.getLogger("headlight_service.frontends.grpc.grpc_status")

STATUS_BY_CODE: Mapping[Code, grpc.StatusCode] = {
    Code.INVALID_INPUT: grpc.StatusCode.INVALID_ARGUMENT,
    Code.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Code.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Code.INTERNAL: grpc.StatusCode.INTERNAL,
    Code.BUNDLE: grpc.StatusCode.INTERNAL,  # start-up only; never sent
}
# Clients retry RESOURCE_EXHAUSTED only if this is present: gRPC uses that status also for messages
# that are always too large.
PUSHBACK = "grpc-retry-pushback-ms"
DETAILS = "grpc-status-details-bin"  # clients of every language look here for a google.rpc.Status
DOMAIN = "headlight"  # the domain of ErrorInfo's reasons
LONGEST_DETAIL_CHARACTERS = 1000  # trailers may have 8 KiB in all, and they hold the message twice
NO_METADATA: Mapping[str, str] = MappingProxyType({})


class NotServed(Exception):
    """A method of a public contract, or a part of it, that Headlight does not have.

    Attributes:
        message: names the remedy.
        status: the status of the call.
    """

    def __init__(
        self, message: str, status: grpc.StatusCode = grpc.StatusCode.UNIMPLEMENTED
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ErrorStatus(NamedTuple):
    """Answer to a failed request."""

    status: grpc.StatusCode
    message: str
    retry_after_ms: int | None
    reason: str
    field: str  # of the request, at fault; empty: none
    request_id: str = ""  # its id in the log; empty: it is not logged
    metadata: Mapping[str, str] = NO_METADATA  # the reason in detail, and its numbers

    @property
    def number(self) -> int:
        """The status as google.rpc.Code."""
        return int(self.status.value[0])

    @property
    def frame(self) -> pb.Status:
        """The status of one of a stream's requests."""
        return pb.Status(
            code=self.number,
            message=self.message,
            retry_after_ms=self.retry_after_ms,
            reason=self.reason.upper(),
            field=self.field,
            metadata=self.metadata,
        )

    @property
    def details(self) -> Status:
        """Details for machines.

        ErrorInfo always; BadRequest if a field is at fault; RetryInfo if a retry may help;
        RequestInfo if the failure is logged, so that the client can report it.
        """
        parts: list[Message] = [
            ErrorInfo(reason=self.reason.upper(), domain=DOMAIN, metadata=self.metadata)
        ]
        message = self.message[:LONGEST_DETAIL_CHARACTERS]
        if self.field:
            violation = BadRequest.FieldViolation(
                field=self.field, description=message.removeprefix(f"{self.field}: ")
            )
            parts.append(BadRequest(field_violations=[violation]))
        if self.retry_after_ms is not None:
            parts.append(
                RetryInfo(retry_delay=datetime.timedelta(milliseconds=self.retry_after_ms))
            )
        if self.request_id:
            parts.append(RequestInfo(request_id=self.request_id))
        status = Status(code=self.number, message=message)
        for part in parts:
            status.details.add().Pack(part)
        return status

    @property
    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The details, the retry delay for gRPC clients, and the id of a failure to report."""
        more: dict[str, str | bytes] = {
            DETAILS: self.details.SerializeToString(),
            REQUEST_ID: self.request_id,
        }
        if self.retry_after_ms is not None:
            more[PUSHBACK] = str(self.retry_after_ms)
        return tuple((name, value) for name, value in more.items() if value)


def error_status(
    error: Exception,
    context: Any = None,
    trace: RequestTrace | None = None,
    edge: Edge = CONTRACT,
) -> ErrorStatus:
    """Return the answer to a failure. An unexpected error is logged; the client gets only its id.

    Args:
        error: the failure.
        context: of the call, whose id is logged; None outside of one.
        trace: spans of the request.
        edge: the words of the protocol.
    """
    refused = _status(error, context, trace, edge)
    if trace is not None:
        trace.refused(refused.status, refused.reason)
    return refused


def gone(code: grpc.StatusCode, context: Any, trace: RequestTrace | None) -> None:
    """Log, at debug level, that a client disconnected before the end."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "the client disconnected",
            extra={"event": "caller_left", "status": code.name, **about(context, trace)},
        )


def _status(error: Exception, context: Any, trace: RequestTrace | None, edge: Edge) -> ErrorStatus:
    if (
        isinstance(error, NotImplementedError)
        and context is not None
        and context.code() is grpc.StatusCode.UNIMPLEMENTED
    ):
        # gRPC's generated code answers like this for a method without an implementation.
        problem = refusals.Refusal(Code.INTERNAL, (), Reason.NOT_IMPLEMENTED, {})
        return ErrorStatus(
            grpc.StatusCode.UNIMPLEMENTED,
            edge.message(problem),
            None,
            "unimplemented",
            "",
            metadata=refusals.to_metadata(problem),
        )
    if isinstance(error, NotServed):
        return ErrorStatus(error.status, error.message, None, "unimplemented", "")
    failed = failure_of(
        error, lambda: about(context, trace), lambda code: STATUS_BY_CODE[code].name
    )
    problem = failed.refusal
    return ErrorStatus(
        STATUS_BY_CODE[problem.code],
        edge.message(problem),
        failed.retry_after_ms,
        failed.label,
        edge.name(problem.path) if problem.code is Code.INVALID_INPUT else "",
        failed.request_id,
        failed.metadata,
    )
