"""Trace of a request, as the request path uses it; None without tracing.

The spans themselves are in `headlight_service.telemetry.spans`, which is loaded only with
`--otlp-endpoint`. docs/tracing.md shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import grpc

    from headlight.results import ModelRef
    from headlight_service.core.requests.answer import Prepared


class RequestTrace(Protocol):
    """The spans of one request; see `headlight_service.telemetry.spans.RequestSpans`.

    Attributes:
        recording: whether it was sampled, and has not ended; if not, all methods do nothing.
        trace_id: 32 hexadecimal digits.
    """

    recording: bool
    trace_id: str

    def stage(self, name: str) -> None: ...
    def describe(self, attributes: Mapping[str, Any]) -> None: ...
    def prepared(self, ref: ModelRef, prepared: Prepared) -> None: ...
    def infer(self, batch: Any) -> Any: ...
    def refused(self, code: grpc.StatusCode, reason: str) -> None: ...
    def message(self) -> RequestTrace: ...
    def end(self, code: grpc.StatusCode) -> None: ...
    def end_http(self, status: int, reason: str) -> None: ...
