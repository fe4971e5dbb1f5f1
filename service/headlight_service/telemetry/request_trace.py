"""The trace of the request at hand, as a request's path sees it: None unless spans are made of it.

The spans themselves are in `headlight_service.telemetry.spans`, which is loaded with `--otlp-endpoint` alone.
docs/tracing.md shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import grpc

    from headlight.pb import headlight_pb2 as pb


class RequestTrace(Protocol):
    """The spans of one request; `headlight_service.telemetry.spans.RequestSpans` describes each method.

    Attributes:
        recording: whether it was sampled, and has not ended; if not, everything here does nothing.
        trace_id: 32 hexadecimal digits.
    """

    recording: bool
    trace_id: str

    def stage(self, name: str) -> None: ...
    def describe(self, attributes: Mapping[str, Any]) -> None: ...
    def prepared(self, ref: pb.ModelRef, prepared: Any) -> None: ...
    def infer(self, batch: Any) -> None: ...
    @property
    def place(self) -> Any: ...
    def refused(self, code: grpc.StatusCode, reason: str) -> None: ...
    def message(self) -> AbstractContextManager[None]: ...
    def end(self, code: grpc.StatusCode) -> None: ...


# The request at hand: a unary call, a whole stream, or in the tasks of a stream one message of it.
CURRENT: ContextVar[RequestTrace | None] = ContextVar("headlight_spans", default=None)


def stage(name: str) -> None:
    """The request at hand comes to a stage: "tokenize", "queue", "infer", "reply"; or, where the name is empty, to the end of one."""
    spans = CURRENT.get()
    if spans is not None:
        spans.stage(name)
