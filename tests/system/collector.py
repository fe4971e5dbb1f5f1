"""OTLP collector over gRPC on loopback, which keeps all exports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SECONDS = 120  # until what is waited for has come


class Collector(pb_grpc.TraceServiceServicer):
    """Use as a context manager.

    Attributes:
        endpoint: where it listens.
        exports: all that came, in order.
    """

    def __init__(self) -> None:
        self.exports: list[pb.ExportTraceServiceRequest] = []
        self._changed = threading.Condition()  # may be taken again by who has it
        self._server = grpc.server(ThreadPoolExecutor(2))
        # generated.
        pb_grpc.add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def Export(
        self, request: pb.ExportTraceServiceRequest, context: Any
    ) -> pb.ExportTraceServiceResponse:
        with self._changed:
            self.exports.append(request)
            self._changed.notify_all()
        return pb.ExportTraceServiceResponse()

    def __enter__(self) -> Collector:
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop(None).wait(10)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is true. It is checked after each export."""
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS), (
                f"never came; {len(self.spans)} spans did"
            )

    @property
    def spans(self) -> list[Span]:
        with self._changed:
            return [
                span
                for export in self.exports
                for resource in export.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def below(self, parent: Span) -> list[Span]:
        """Return the child spans, by start time."""
        found = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def attributes(span: Span) -> dict[str, Any]:
    """Return attributes by name; lists as lists."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return (
        [_value(each) for each in value.array_value.values]
        if kind == "array_value"
        else getattr(value, kind)
    )
