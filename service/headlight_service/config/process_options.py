"""Options of the process, its log and its traces."""

from __future__ import annotations

import dataclasses

from headlight_service.config.option_types import (
    SECONDS,
    between,
    choice_option,
    endpoint,
    option,
)
from headlight_service.telemetry.json_logs import FORMATS, LEVELS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """Shutdown and liveness."""

    drain_delay_seconds: float = option(
        0.0,
        SECONDS,
        (
            "wait from NOT_SERVING to closing; on Kubernetes 5 to 10, until the pod's endpoint is "
            "removed"
        ),
    )
    grace_seconds: float = option(
        30.0,
        SECONDS,
        "time for calls in flight at shutdown; set it higher than the longest call takes",
    )
    stuck_seconds: float = option(
        60.0,
        between(1, 86400),
        (
            "/livez fails if there is work, but no batch began or ended for this time; set it "
            "higher than a batch takes"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Log and traces."""

    log_level: str = choice_option("info", "least severe message that is logged", *LEVELS)
    log_format: str = choice_option(
        "auto",
        "text for people, json for programs; auto: text on a terminal, else json",
        *FORMATS,
    )
    otlp_endpoint: str | None = option(
        None,
        endpoint,
        "address of an OpenTelemetry collector; turns tracing on (extra otel, docs/tracing.md)",
        metavar="URL",
    )
