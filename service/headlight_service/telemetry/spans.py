"""OpenTelemetry spans of requests and of batches; loaded only with `--otlp-endpoint`.

    headlight.v1.HeadlightService/Encode     a call, in the trace that its client names
    ├── tokenize
    ├── queue
    ├── infer ⇠⇢ batch                       a trace of its own, linked with all requests in it
    └── reply                                until the transport has sent it

Each message of a stream is a span in between. Spans hold no text, token or id: attributes are
counts and closed sets.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping

import grpc
from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanContext,
    Status,
    StatusCode,
    Tracer,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from headlight.results import ModelRef
from headlight_service.core.requests.answer import Prepared
from headlight_service.core.scheduler.lanes import Batch
from headlight_service.core.scheduler.pending_requests import Member

# Errors of the client: recorded in the attributes, but not as errors of the service.
CALLERS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}


FIRST_SERVER_ERROR = 500  # of the statuses of HTTP


class RequestSpans:
    """The spans of one request, of which one stage follows another.

    Attributes:
        recording: whether it was sampled, and has not ended; if not, all methods do nothing.
        trace_id: 32 hexadecimal digits.
    """

    __slots__ = (
        "_code",
        "_inside",
        "_lock",
        "_reason",
        "_span",
        "_stage",
        "_stage_name",
        "_tracer",
        "recording",
        "trace_id",
    )

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._inside = set_span_in_context(span, Context())
        self._stage: Span | None = None
        self._stage_name = ""
        self._code: grpc.StatusCode | None = None
        self._reason = ""
        self._lock = threading.RLock()  # a call may end while its batch is running
        self.recording = span.is_recording()
        self.trace_id = format_trace_id(span.get_span_context().trace_id)

    def stage(self, name: str) -> None:
        """End the current stage, if any, and begin this one; an empty name begins none."""
        with self._lock:
            if not self.recording or name == self._stage_name:
                return
            now = time.time_ns()
            if self._stage is not None:
                self._stage.end(now)
            self._stage = (
                self._tracer.start_span(name, self._inside, start_time=now) if name else None
            )
            self._stage_name = name

    def describe(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Add attributes to the request's span."""
        if self.recording:
            self._span.set_attributes(attributes)

    def prepared(self, ref: ModelRef, prepared: Prepared) -> None:
        """Describe the requested outputs, in numbers."""
        outputs = [name for name, size in prepared.output_bytes.items() if size]
        self.describe(
            {
                "gen_ai.operation.name": "embeddings",
                "gen_ai.request.model": ref.name,
                "gen_ai.usage.input_tokens": prepared.tokens,
                "headlight.inputs": len(prepared.inputs),
                "headlight.outputs": outputs or ["token_info"],
                "headlight.priority": prepared.priority,
                "headlight.provider": ref.provider,
                "headlight.precision": ref.precision,
            }
        )

    def infer(self, batch: Span) -> SpanContext:
        """Record that items are in a batch; return the span to link: the stage, or the request."""
        with self._lock:
            self.stage("infer")
            if self._stage is not None:
                self._stage.add_link(batch.get_span_context())
            return (self._stage or self._span).get_span_context()

    def refused(self, code: grpc.StatusCode, reason: str) -> None:
        """Record the status that the request will end with; `reason` is one of a closed set."""
        self._code, self._reason = code, reason

    def message(self) -> RequestSpans:
        """Return the spans of one message of this stream."""
        if not self.recording:
            return self
        return RequestSpans(self._tracer, self._tracer.start_span("message", self._inside))

    def end(self, code: grpc.StatusCode) -> None:
        """End the request with this status, and its current stage."""
        self.describe({"rpc.grpc.status_code": code.value[0]})
        if code is grpc.StatusCode.OK:
            self._end("", "")
        else:
            reason = self._reason if code is self._code else code.name.lower()
            self._end(reason, "" if code in CALLERS else f"{code.name}: {reason}")

    def end_http(self, status: int, reason: str) -> None:
        """End a request over HTTP with this status, and its current stage.

        Args:
            status: status of the response.
            reason: one of a closed set; empty: it was answered.
        """
        self.describe({"http.response.status_code": status})
        self._end(reason, f"{status}: {reason}" if status >= FIRST_SERVER_ERROR else "")

    def _end(self, reason: str, failure: str) -> None:
        """End the request and its current stage; `failure`: of the service, empty for none."""
        with self._lock:
            if not self.recording:
                return
            self.recording, now = False, time.time_ns()
            stage, self._stage = self._stage, None
        for span in (stage, self._span):
            if span is None:
                continue
            if reason:
                span.set_attribute("error.type", reason)
            if failure:
                span.set_status(Status(StatusCode.ERROR, failure))
            span.end(now)


@dataclasses.dataclass(frozen=True, slots=True)
class BatchSpan:
    """The span of a batch that is running."""

    span: Span

    def end(self, *, failed: bool) -> None:
        """End the span."""
        if failed:
            self.span.set_attribute("error.type", "internal")
            self.span.set_status(Status(StatusCode.ERROR, "INTERNAL: internal"))
        self.span.end()


class BatchTracing:
    """Tracer of one model's batches; only a batch with a traced request gets a span."""

    def __init__(self, tracer: Tracer, ref: ModelRef) -> None:
        self._tracer = tracer
        self._of_model: dict[str, AttributeValue] = {
            "gen_ai.request.model": ref.name,
            "headlight.provider": ref.provider,
            "headlight.precision": ref.precision,
        }

    def begin(self, batch: Batch[Member], *, wide: bool) -> BatchSpan | None:
        """Begin the span of a batch, and the infer stage of its traced requests."""
        pending = {entry.value.pending: None for entry in batch.entries}
        members = [
            each.trace for each in pending if each.trace is not None and each.trace.recording
        ]
        if not members:
            return None
        for member in members:  # their stages contain the batch
            member.stage("infer")
        first = batch.entries[0]
        attributes: dict[str, AttributeValue] = {
            **self._of_model,
            "headlight.graph": first.lane.role,
            "headlight.priority": first.priority,
            "headlight.batch.requests": len(pending),
            "headlight.batch.items": len(batch.entries),
            "headlight.batch.tokens": batch.total,
            "headlight.batch.padding": round(1 - batch.total / batch.padded, 6),
            "headlight.batch.wide": wide,
        }
        span = self._tracer.start_span("batch", Context(), attributes=attributes)
        for member in members:
            span.add_link(member.infer(span))
        return BatchSpan(span)
