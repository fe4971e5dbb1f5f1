"""Logs: one JSON object per line on standard error. They never quote a request's content.

On a terminal, headlight_service.telemetry.text_logs formats the lines.

Libraries quote requests in their messages, so only their place in the code is logged. Lines of one
kind are rate limited, and a thread writes them (headlight_service.telemetry.log_writer). Neither a
flood nor a pipe without a reader stops the service.

Events are written with the standard library: `log.info("serving", extra={"event": "serving",
"port": 50051})`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from headlight_service.telemetry.log_writer import RATE, Writer

LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("auto", "text", "json")
LEFT_OUT = "left_out"
# "text" is for headlight_service.telemetry.text_logs.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "taskName", "event", "text")
}

# Loggers whose messages never quote a request. Of all others only the place in the code is logged.
TRUSTED = (
    "headlight",
    "headlight_service",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "py.warnings",
)
WITHHELD = "a message of a library; it is left out, since it may quote a caller"
# Lines of one logger and event: so many at once, then one after each pause.
BURST, PAUSE_SECONDS = 50, 0.1


class JsonFormatter(logging.Formatter):
    """Formatter to JSON: time, level, logger, event, message, and all fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event_of(record),
            **fields(record),
        }
        return json.dumps(entry, default=str, ensure_ascii=False)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the message of a record and its extras; of a library's, its place in the code."""
    trusted = is_trusted(record.name)
    result: dict[str, Any] = {"message": record.getMessage() if trusted else WITHHELD}
    if not trusted:
        result["place"] = f"{record.pathname}:{record.lineno} {record.funcName}"
    extra = vars(record).keys() - _STANDARD if trusted else {LEFT_OUT}
    result.update((key, value) for key, value in vars(record).items() if key in extra)
    if record.exc_info and record.exc_info[1] is not None:
        result.update(describe(record.exc_info[1]))
    return result


def is_trusted(name: str) -> bool:
    """Return whether a logger's messages are logged as they are."""
    return any(name == each or name.startswith(f"{each}.") for each in TRUSTED)


def event_of(record: logging.LogRecord) -> str:
    """Return the event of a trusted record; a library could put anything there."""
    return str(getattr(record, "event", "message")) if is_trusted(record.name) else "message"


def describe(error: BaseException) -> dict[str, Any]:
    """Return type and stack of an exception, without its message, which may quote a request."""
    kind = type(error)
    stack = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return {"kind": f"{kind.__module__}.{kind.__qualname__}", "stack": stack}


class Seldom(logging.Filter):
    """Rate limiter for each kind of line, which is its logger and event: a token bucket."""

    def __init__(
        self,
        name: str,
        seconds: float = 60.0,
        burst: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with full buckets.

        Args:
            name: name of the logger at or below which lines are limited; others pass. Empty: all
                lines are limited.
            seconds: time until one more line of a kind may pass.
            burst: lines of a kind at once.
            clock: monotonic clock, in seconds.
        """
        super().__init__(name)
        self._seconds, self._clock = seconds, clock
        self._ahead = (burst - 1) * seconds
        self._lock = threading.RLock()
        self._due: dict[tuple[str, str], float] = {}  # time when the bucket is full again
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a line pass, with the count of those left out before it, or leave it out."""
        if not super().filter(record):
            return True
        kind, now = (record.name, event_of(record)), self._clock()
        with self._lock:
            due = max(now, self._due.get(kind, now))
            if due - now > self._ahead:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
                RATE.inc()
                return False
            self._due[kind] = due + self._seconds
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            setattr(record, LEFT_OUT, left_out)
        return True


def configure(
    level: str,
    stream: TextIO | None = None,
    formatter: logging.Formatter | None = None,
    filters: Sequence[Callable[[logging.LogRecord], bool]] = (),
) -> None:
    """Send all logs to a stream, in place of any earlier configuration.

    Args:
        level: one of LEVELS.
        stream: a stream that is written at once; None: standard error, by a thread, without
            waiting.
        formatter: formatter of the lines; None: JsonFormatter.
        filters: filters of lines, before those are counted by the rate limiter.
    """
    handler: logging.Handler
    if stream is not None:
        handler = logging.StreamHandler(stream)
    elif sys.stderr is None:  # closed; its number may now be that of a socket
        handler = logging.NullHandler()
    else:
        handler = Writer(sys.stderr.fileno())
    handler.setFormatter(formatter or JsonFormatter())
    for each in filters:
        handler.addFilter(each)
    for limiter in (
        Seldom("opentelemetry"),
        Seldom("headlight_service.app.operational_http"),
        # A traceback is printed in many pieces.
        Seldom("headlight_service.telemetry.uncaught_errors", 1.0),
        Seldom("", PAUSE_SECONDS, BURST),
    ):
        handler.addFilter(limiter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
