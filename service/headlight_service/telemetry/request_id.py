"""Which request a line of the log is about: the id that its caller gave, or one made up where there is something to report."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Any

from headlight_service.telemetry.request_trace import RequestTrace

REQUEST_ID = "x-request-id"  # in metadata, both ways
# What common proxies and libraries make up, and nothing that could pass for anything else in a log.
_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def given_id(metadata: Iterable[tuple[str, str | bytes]] | None) -> str | None:
    """The id that came with a call; None where there is none, or it is too long or of other characters."""
    for key, value in metadata or ():
        if key == REQUEST_ID:
            return value if isinstance(value, str) and _SANE.fullmatch(value) else None
    return None


def about(context: Any, trace: RequestTrace | None = None) -> dict[str, str]:
    """For the log: `request_id`, made up where the caller gave none, and `trace_id` where there is tracing.

    Args:
        context: of the call; None outside of one.
        trace: its spans.
    """
    known = {"request_id": (context and given_id(context.invocation_metadata())) or uuid.uuid4().hex}
    if trace is not None:
        known["trace_id"] = trace.trace_id
        trace.describe({"headlight.request_id": known["request_id"]})
    return known
