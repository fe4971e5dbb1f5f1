"""All log records, for tests that check every one."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headlight_service.telemetry import json_logs


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return all records except asyncio's.

    Those are of callbacks that gRPC left for the loop of another test.
    """
    return [record for record in caplog.records if record.name != "asyncio"]


@contextlib.contextmanager
def root_log(level: str, *options: Any) -> Iterator[io.StringIO]:
    """Yield the output of the root logger, configured as the service does it.

    Restores the configuration of the test run afterwards.
    """
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers.clear()
    stream = io.StringIO()
    json_logs.configure(level, stream, *options)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(before)
