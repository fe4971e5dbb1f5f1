"""Spans kept in memory, and questions about them."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from headlight_service.telemetry.otlp import Tracing
from tests.service.calls import until

SERVICE = "headlight.v1.HeadlightService"


class RecordedSpans:
    """In-memory span recorder of a service in a test.

    Attributes:
        tracing: makes them.
    """

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Return the spans that have ended."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    async def calls(self, method: str, count: int = 1) -> list[ReadableSpan]:
        """Return so many calls of a method, once they have ended: an answer can arrive earlier."""
        await until(lambda: len(self.named(f"{SERVICE}/{method}")) >= count)
        return self.named(f"{SERVICE}/{method}")

    def below(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Return the child spans of a span, by start time."""
        own = context_of(parent)
        found = [span for span in self.spans if span.parent and span.parent.span_id == own.span_id]
        assert all(context_of(span).trace_id == own.trace_id for span in found)
        return sorted(found, key=lambda span: span.start_time or 0)

    def stages(self, parent: ReadableSpan) -> list[str]:
        return [span.name for span in self.below(parent)]


def context_of(span: ReadableSpan) -> SpanContext:
    context: SpanContext | None = span.context
    assert context is not None
    return context


def links_of(span: ReadableSpan) -> set[int]:
    """Return the span ids that a span links to."""
    return {link.context.span_id for link in span.links}


def id_of(span: ReadableSpan) -> int:
    return context_of(span).span_id
