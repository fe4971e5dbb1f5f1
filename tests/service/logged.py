"""What was logged, for tests that want to know it all."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """All but what asyncio says.

    That is of what gRPC has left to do for the loop of another test.
    """
    return [record for record in caplog.records if record.name != "asyncio"]
