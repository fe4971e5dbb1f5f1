"""Log lines for uncaught exceptions and stray output of libraries, without their text.

Python and gRPC print tracebacks on standard error. They may quote a request, and are not JSON.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from types import TracebackType
from typing import Any

from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.telemetry.uncaught_errors")


class StrayOutput(io.TextIOBase):
    """Replacement of `sys.stderr`: logs that there was output, not the output."""

    def writable(self) -> bool:
        """Return True, because libraries ask first."""
        return True

    def write(self, text: str) -> int:
        """Log one line, with the kind and stack of the exception being handled, if any."""
        if text.strip():
            error = sys.exc_info()[1]
            what = describe(error) if error is not None else {}
            log.error(
                "a library wrote to standard error; its text is left out",
                extra={"event": "stray_output", **what},
            )
        return len(text)


def redirect() -> None:
    """Send uncaught exceptions and stray output to the log."""
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread
    sys.stderr = StrayOutput()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    log.critical("ended by a bug", extra={"event": "crashed", **describe(error)})


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        log.error(
            "a thread ended by a bug", extra={"event": "thread_failed", **describe(args.exc_value)}
        )


def _log_unraisable(args: Any) -> None:
    what = describe(args.exc_value) if args.exc_value is not None else {}
    log.error("an exception could not be raised", extra={"event": "unraisable", **what})
