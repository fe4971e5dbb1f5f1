from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from headlight_service.telemetry import json_logs
from headlight_service.telemetry.log_writer import DROPPED
from tests.service.logged import root_log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    with root_log("info") as stream:
        yield stream


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return all entries except asyncio's, which are of callbacks of another test's loop."""
    found: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [entry for entry in found if entry["logger"] != "asyncio"]


def test_one_json_object_a_line(stream: io.StringIO) -> None:
    log = logging.getLogger("headlight_service.test")
    log.info("two\nlines of %s", "text", extra={"event": "happened", "count": 3})
    log.debug("too little to say")
    [entry] = entries(stream)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "info",
        "logger": "headlight_service.test",
        "event": "happened",
        "message": "two\nlines of text",
        "count": 3,
    }


def test_exceptions_are_logged_with_type_and_place_only(stream: io.StringIO) -> None:
    try:
        "é secret".encode("ascii")
    except UnicodeEncodeError:
        logging.getLogger("x").exception("failed")
    [entry] = entries(stream)
    assert entry["kind"] == "builtins.UnicodeEncodeError"
    assert "test_json_logs.py" in entry["stack"][0]
    assert "secret" not in json.dumps(entry)


def test_warnings_of_libraries_are_logged(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert entries(stream)[0]["logger"] == "py.warnings"


@pytest.mark.parametrize(
    "name",
    ["grpc", "grpc._server", "grpc._cython.cygrpc", "asyncio", "concurrent.futures", "root"],
)
def test_only_the_place_of_library_messages_is_logged(stream: io.StringIO, name: str) -> None:
    """gRPC: `Invalid encoding on b'Bearer ...'`.

    Asyncio: the repr of a task, and of its exception.
    """
    log = logging.getLogger(None if name == "root" else name)
    try:
        raise ValueError("secret")
    except ValueError as error:
        log.exception(
            "Invalid encoding on %s", b"secret", extra={"more": "secret", "event": "secret"}
        )
        log.error(f"secret {error}", exc_info=(KeyError, KeyError("secret"), None), stack_info=True)
        log.warning(["secret"])
    found = [
        entry
        for entry in map(json.loads, stream.getvalue().splitlines())
        if entry["logger"] == name
    ]
    assert [entry.get("kind") for entry in found] == [
        "builtins.ValueError",
        "builtins.KeyError",
        None,
    ]
    assert all("test_json_logs.py" in entry["place"] for entry in found)
    assert "secret" not in str(found)


def test_messages_of_headlight_and_the_exporter_are_kept(stream: io.StringIO) -> None:
    for name in (
        "opentelemetry.exporter.otlp.proto.grpc.exporter",
        "headlight.runtime.providers.device_faults",
        "headlight_service",
    ):
        logging.getLogger(name).error("kept by %s", name)
        assert entries(stream)[-1]["message"] == f"kept by {name}"
    # This message quotes a caller's tracestate.
    for name in ("services", "opentelemetry.trace.propagation"):
        logging.getLogger(name).error("secret")
    assert "secret" not in stream.getvalue()


def test_a_flood_of_one_kind_is_limited_and_other_kinds_pass(stream: io.StringIO) -> None:
    log = logging.getLogger("headlight_service.flooded")
    before = DROPPED.labels("rate")._value.get()
    for _ in range(1000):
        log.error("a failure", extra={"event": "flood"})
    for event in ("draining", "stopped"):
        log.info(event, extra={"event": event})
    found = [entry["event"] for entry in entries(stream)]
    passed = found.count("flood")
    assert json_logs.BURST <= passed < 500
    assert found[-2:] == ["draining", "stopped"]
    assert DROPPED.labels("rate")._value.get() - before == 1000 - passed


def test_after_a_burst_one_line_passes_in_each_pause() -> None:
    now = 0.0
    seldom = json_logs.Seldom("", 0.5, burst=3, clock=lambda: now)

    def passes(event: str) -> object:
        record = logging.makeLogRecord({"name": "headlight_service", "event": event})
        return seldom.filter(record) and getattr(record, "left_out", True)

    assert [passes("a") for _ in range(5)] == [True, True, True, False, False]
    assert passes("b") is True
    now = 0.5
    assert [passes("a"), passes("a")] == [2, False]
    now = 10.0
    assert [passes("a") for _ in range(4)] == [1, True, True, False]


def test_an_unreachable_collector_is_logged_once_a_minute() -> None:
    now = 0.0
    seldom = json_logs.Seldom("opentelemetry", 60, clock=lambda: now)

    def passes(name: str) -> bool:
        return seldom.filter(record := logging.makeLogRecord({"name": name})) and getattr(
            record, "left_out", True
        )

    exporter = "opentelemetry.exporter.otlp"
    assert passes(exporter) is True
    assert [
        passes(exporter),
        passes(exporter),
        passes("opentelemetry.sdk"),
        passes("headlight_service"),
    ] == [
        False,
        False,
        True,
        True,
    ]
    now = 60.0
    assert passes(exporter) == 2, "the next line says how many were left out"
    now = 120.0
    assert passes(exporter) is True
