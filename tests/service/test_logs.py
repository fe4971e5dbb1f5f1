from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from service import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where a configured root logger writes; the configuration of the test run comes back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    stream = io.StringIO()
    logs.configure("info", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    """All but asyncio's, which are of what gRPC has left to do for the loop of another test."""
    found: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [entry for entry in found if entry["logger"] != "asyncio"]


def test_one_json_object_a_line(stream: io.StringIO) -> None:
    log = logging.getLogger("service.test")
    log.info("two\nlines of %s", "text", extra={"event": "happened", "count": 3})
    log.debug("too little to say")
    [entry] = entries(stream)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "info",
        "logger": "service.test",
        "event": "happened",
        "message": "two\nlines of text",
        "count": 3,
    }


def test_exceptions_are_told_by_kind_and_place_alone(stream: io.StringIO) -> None:
    try:
        "é secret".encode("ascii")
    except UnicodeEncodeError:
        logging.getLogger("x").exception("failed")
    [entry] = entries(stream)
    assert entry["kind"] == "builtins.UnicodeEncodeError"
    assert "test_logs.py" in entry["stack"][0]
    assert "secret" not in json.dumps(entry)


def test_warnings_of_libraries_are_logged(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert entries(stream)[0]["logger"] == "py.warnings"


def test_a_caller_who_left_is_no_error_and_other_failures_of_grpc_are(stream: io.StringIO) -> None:
    """gRPC's own words for it, where the caller leaves between the handler's end and the sending of its status."""
    from grpc._cython.cygrpc import ExecuteBatchError  # type: ignore[import-not-found]  # the stubs leave it out

    for error in (ExecuteBatchError(), ValueError()):
        try:
            raise error
        except (ExecuteBatchError, ValueError):
            logging.getLogger("grpc._cython.cygrpc").exception("raised in core by servicer method")
    [entry] = entries(stream)
    assert entry["kind"] == "builtins.ValueError"


def test_a_collector_that_is_away_is_told_of_once_a_minute() -> None:
    now = 0.0
    seldom = logs.Seldom("opentelemetry", 60, clock=lambda: now)

    def passes(name: str) -> bool:
        return seldom.filter(record := logging.makeLogRecord({"name": name})) and getattr(record, "left_out", True)

    exporter = "opentelemetry.exporter.otlp"
    assert passes(exporter) is True
    assert [passes(exporter), passes(exporter), passes("opentelemetry.sdk"), passes("service")] == [
        False,
        False,
        True,
        True,
    ]
    now = 60.0
    assert passes(exporter) == 2, "the next line says how many were left out"
    now = 120.0
    assert passes(exporter) is True
