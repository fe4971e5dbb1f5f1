"""Start of tracing. OpenTelemetry is loaded only with `--otlp-endpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlight.extras import remedy
from headlight_service.config.command_line import ConfigError

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing


def start(endpoint: str | None) -> Tracing | None:
    """Return the tracing that sends spans to a collector; None without one.

    Args:
        endpoint: http://HOST:PORT or https://HOST:PORT of a collector that takes OTLP over gRPC.

    Raises:
        ConfigError: the extra is not installed, or OpenTelemetry cannot use a variable OTEL_*.
    """
    if endpoint is None:
        return None
    try:
        # It needs an optional dependency.
        from headlight_service.telemetry import otlp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise ConfigError(
            f"--otlp-endpoint needs OpenTelemetry, which is not installed; {remedy('otel')}, "
            "or leave the option out"
        ) from None
    try:
        return otlp.to_collector(endpoint)
    except Exception as error:  # of several kinds, internal to the library
        raise ConfigError(
            f"--otlp-endpoint: OpenTelemetry cannot be set up ({error}); check the variables OTEL_*"
        ) from None
