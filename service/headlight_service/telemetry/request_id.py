"""Request ids for the log: the client's, or a new one for a line that needs it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Any

from headlight_service.telemetry.request_trace import RequestTrace

REQUEST_ID = "x-request-id"  # in metadata, both ways
# Ids of common proxies and libraries; nothing that could be mistaken for other log content.
_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def given_id(metadata: Iterable[tuple[str, str | bytes]] | None) -> str | None:
    """Return the id that came with a call; None: none, too long, or with other characters."""
    for key, value in metadata or ():
        if key == REQUEST_ID:
            return value if isinstance(value, str) and _SANE.fullmatch(value) else None
    return None


def about(context: Any, trace: RequestTrace | None = None) -> dict[str, str]:
    """Return log fields: `request_id`, a new one if the client gave none, and `trace_id` if traced.

    Args:
        context: of the call; None outside of one.
        trace: its spans.
    """
    known = {
        "request_id": (context and given_id(context.invocation_metadata())) or uuid.uuid4().hex
    }
    if trace is not None:
        known["trace_id"] = trace.trace_id
        trace.describe({"headlight.request_id": known["request_id"]})
    return known
