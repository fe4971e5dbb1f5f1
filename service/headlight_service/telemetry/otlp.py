"""OpenTelemetry setup: sampling, and export to a collector. Loaded only with `--otlp-endpoint`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headlight.results import ModelRef
from headlight_service.telemetry.request_id import given_id
from headlight_service.telemetry.spans import BatchTracing, RequestSpans

Metadata = Iterable[tuple[str, str | bytes]]
NAME = "headlight"
W3C = TraceContextTextMapPropagator()
HEADERS = ("traceparent", "tracestate")


class Tracing:
    """Tracer of a process.

    Attributes:
        resource: identity of the process.
    """

    def __init__(self, processor: SpanProcessor, resource: Resource | None = None) -> None:
        """Use the sampler of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.

        By default the client decides.

        Args:
            processor: takes the spans and exports them without blocking.
            resource: identity of the process; None: by OTEL_SERVICE_NAME and
                OTEL_RESOURCE_ATTRIBUTES.
        """
        self._processor = processor
        self.resource = resource = resource or Resource.create()
        requests = TracerProvider(resource=resource, shutdown_on_exit=False)
        # Its requests decide whether a batch has a span, so no sampled request has a dangling link.
        batches = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        for provider in (requests, batches):
            provider.add_span_processor(processor)
        self._requests, self._batches = requests.get_tracer(NAME), batches.get_tracer(NAME)

    def call(self, service: str, method: str, metadata: Metadata | None) -> RequestSpans:
        """Return the spans of a call that begins.

        Args:
            service: full name of the service.
            method: name of the method.
            metadata: metadata of the call.
        """
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        return self._begin(f"{service}/{method}", attributes, tuple(metadata or ()))

    def http(self, method: str, route: str, headers: Metadata) -> RequestSpans:
        """Return the spans of a request over HTTP that begins.

        Args:
            method: method of the request.
            route: path of its route.
            headers: its headers, by lower-case names.
        """
        attributes = {"http.request.method": method, "http.route": route}
        return self._begin(f"{method} {route}", attributes, tuple(headers))

    def _begin(
        self, name: str, attributes: dict[str, str], metadata: Sequence[tuple[str, str | bytes]]
    ) -> RequestSpans:
        if (request_id := given_id(metadata)) is not None:
            attributes["headlight.request_id"] = request_id
        carrier = {
            name: [value for key, value in metadata if key == name and isinstance(value, str)]
            for name in HEADERS
        }
        parent = W3C.extract(carrier, Context())
        span = self._requests.start_span(name, parent, SpanKind.SERVER, attributes)
        return RequestSpans(self._requests, span)

    def batches(self, ref: ModelRef) -> BatchTracing:
        """Return the tracer of a model's batches."""
        return BatchTracing(self._batches, ref)

    async def close(self, seconds: float) -> None:
        """Send remaining spans for at most so long: an absent collector must not delay the end."""
        closing = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, seconds)


def to_collector(endpoint: str) -> Tracing:
    """Send spans to a collector; see `headlight_service.telemetry.tracing.start`.

    The queue is bounded (OTEL_BSP_*): if it is full, the oldest span is dropped.
    """
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": NAME}))
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint)), resource)
