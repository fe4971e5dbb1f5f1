"""The service with a fault injected into gRPC: a call of ENDS ends the serving thread."""

from __future__ import annotations

from typing import Any

from grpc import _server

from headlight_service.__main__ import main

ENDS = "/fault/end"
_whole = _server._process_event_and_continue


def process(state: Any, event: Any) -> bool:
    """Handle one event of gRPC, or fail as a bug in it would."""
    details = getattr(event, "call_details", None)
    if details is not None and details.method == ENDS.encode():
        raise ValueError("a fault was put in")
    return bool(_whole(state, event))


if __name__ == "__main__":
    _server._process_event_and_continue = process
    main()
