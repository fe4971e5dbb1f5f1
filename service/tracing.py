"""Tracing as the path of a request sees it: one variable, which is None unless spans are made of the request.

What needs OpenTelemetry is in `service.telemetry` and `service.spans`, which are loaded with `--otlp-endpoint` alone.
docs/tracing.md shows the spans.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from service.commandline import ConfigError

if TYPE_CHECKING:
    from service.spans import RequestSpans
    from service.telemetry import Tracing

# The request at hand: a unary call, a whole stream, or in the tasks of a stream one message of it.
CURRENT: ContextVar[RequestSpans | None] = ContextVar("headlight_spans", default=None)


def start(endpoint: str | None) -> Tracing | None:
    """What makes spans and sends them to a collector; None without one.

    Args:
        endpoint: http://HOST:PORT or https://HOST:PORT of a collector that takes OTLP over gRPC.

    Raises:
        ConfigError: the extra is not installed, or a variable OTEL_* has a value that OpenTelemetry cannot use.
    """
    if endpoint is None:
        return None
    try:
        telemetry = importlib.import_module("service.telemetry")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        remedy = "pip install '.[otel]' in Headlight's repository, or leave the option out"
        raise ConfigError(f"--otlp-endpoint needs OpenTelemetry, which is not installed; {remedy}") from None
    try:
        tracing: Tracing = telemetry.to_collector(endpoint)
    except Exception as error:  # of several kinds, which are the library's affair
        problem = f"OpenTelemetry cannot be set up ({error}); check the variables OTEL_*"
        raise ConfigError(f"--otlp-endpoint: {problem}") from None
    return tracing


def stage(name: str) -> None:
    """The request at hand comes to a stage: "tokenize", "queue", "infer", "reply"; or, where the name is empty, to the end of one."""
    spans = CURRENT.get()
    if spans is not None:
        spans.stage(name)
