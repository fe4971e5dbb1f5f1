"""Logs: one JSON object per line on standard error. What callers send never appears in them.

Events are written with the standard library: `log.info("serving", extra={"event": "serving", "port": 50051})`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

LEVELS = ("debug", "info", "warning", "error", "critical")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "event"}


class JsonFormatter(logging.Formatter):
    """time, level, logger, event, message, and whatever `extra` brought."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", "message"),
            "message": message,
        }
        entry.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info and record.exc_info[1] is not None:
            entry.update(describe(record.exc_info[1]))
        return json.dumps(entry, default=str, ensure_ascii=False)


def describe(error: BaseException) -> dict[str, Any]:
    """Type and stack of an exception, without its message: a library's message may quote what the caller sent."""
    kind = type(error)
    return {"kind": f"{kind.__module__}.{kind.__qualname__}", "stack": _stack(error.__traceback__)}


def _stack(trace: TracebackType | None) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


def _worth_telling(record: logging.LogRecord) -> bool:
    """Not that gRPC could not send to a caller who had just left: to it an error of the servicer."""
    error = record.exc_info[0] if record.exc_info else None
    return not (record.name.startswith("grpc.") and error is not None and error.__name__ == "ExecuteBatchError")


class Seldom(logging.Filter):
    """Of each logger below a name one line a minute: a collector that is away would fill the log with the same."""

    def __init__(self, name: str, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Lines of other loggers all pass."""
        super().__init__(name)
        self._seconds, self._clock = seconds, clock
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return True
        now, last = self._clock(), self._last.get(record.name)
        if last is not None and now - last < self._seconds:
            self._left_out[record.name] = self._left_out.get(record.name, 0) + 1
            return False
        self._last[record.name] = now
        if left_out := self._left_out.pop(record.name, 0):
            record.left_out = left_out
        return True


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all logs to a stream, in place of whatever was configured.

    Args:
        level: one of LEVELS.
        stream: None: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(_worth_telling)
    handler.addFilter(Seldom("opentelemetry"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
