"""Steps of calls, each run so that a bug in it keeps none of the others from being done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.grpc.transport.isolated_steps")


def attempt(*acts: Callable[[], object]) -> None:
    """Call each, in their order; log exceptions."""
    for act in acts:
        try:
            act()
        except Exception as error:
            log.error("a step of a call failed", extra={"event": "call_failed", **describe(error)})
