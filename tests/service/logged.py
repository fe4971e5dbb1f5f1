"""All log records, for tests that check every one."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return all records except asyncio's.

    Those are of callbacks that gRPC left for the loop of another test.
    """
    return [record for record in caplog.records if record.name != "asyncio"]
