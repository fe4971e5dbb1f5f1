"""Logs as text: what a person sees of an event."""

from __future__ import annotations

import io
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headlight_service.telemetry import json_logs, text_logs
from headlight_service.telemetry.text_logs import TextFormatter
from tests.service.logged import root_log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    with root_log("info", TextFormatter(), (text_logs.is_noteworthy,)) as stream:
        yield stream


LOG = logging.getLogger("headlight_service.test")
CLOCK = time.strftime("%H:%M:%S", time.localtime(0))


def record(message: str, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": LOG.name, "levelno": level, "msg": message, **extra})
    made.created = 0.0
    return made


def test_a_line_has_time_message_and_what_the_message_does_not_say(stream: io.StringIO) -> None:
    LOG.info("3 items are run again", extra={"event": "happened", "items": 3, "model": "m"})
    [line] = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  3 items are run again {25}model=m", line)


def test_extras_of_short_messages_stand_in_one_column() -> None:
    formatter = TextFormatter()
    lines = [formatter.format(record(message, n=1)) for message in ("short", "a longer one")]
    assert {line.index("n=1") for line in lines} == {len("00:00:00  ") + 44 + 2}


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (logging.INFO, "it is so"),
        (logging.WARNING, "warning: it is so"),
        (logging.ERROR, "error: it is so"),
        (logging.CRITICAL, "error: it is so"),
    ],
)
def test_a_level_is_named_unless_it_is_info(level: int, said: str) -> None:
    assert TextFormatter().format(record("it is so", level)) == f"{CLOCK}  {said}"


def test_a_table_takes_the_place_of_message_and_fields_and_is_not_json() -> None:
    shown = record("serving", sha256="ab", text="serving\n\n  model  m")
    assert TextFormatter().format(shown) == f"{CLOCK}  serving\n\n  model  m"
    assert "text" not in json_logs.fields(shown)


def test_messages_of_libraries_and_of_exceptions_are_withheld(stream: io.StringIO) -> None:
    logging.getLogger("grpc").error("secret %s", "text", extra={"text": "secret"})
    try:
        "é secret".encode("ascii")
    except UnicodeEncodeError:
        LOG.exception("failed", extra={"event": "x"})
    library, ours = stream.getvalue().splitlines()
    assert "secret" not in stream.getvalue()
    assert "place=" in library
    assert re.search(r"error: failed +kind=builtins.UnicodeEncodeError place=.*\.py:\d+ ", ours)


def test_control_characters_reach_no_terminal() -> None:
    line = TextFormatter().format(record("a\x1b[2Jb", name_of="c\nd\u2028"))
    assert "\x1b" not in line
    assert len(line.splitlines()) == 1


def test_a_drain_without_calls_is_one_line(stream: io.StringIO) -> None:
    for calls in (0, 2):
        LOG.info("draining", extra={"event": "draining", "calls": calls})
        LOG.info("stopped", extra={"event": "stopped"})
    words = [line.split()[1:] for line in stream.getvalue().splitlines()]
    assert words == [["stopped"], ["draining", "calls=2"], ["stopped"]]


def test_a_line_is_wrapped_at_the_width_of_its_terminal_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((60, 20)))
    long = record("word " * 30)
    rows = TextFormatter(1).format(long).removeprefix("\r\x1b[K").split("\n")
    assert len(rows) > 2
    assert max(map(len, rows)) <= 60
    assert all(row.startswith(" " * 10 + "word") for row in rows[1:])
    assert "\n" not in TextFormatter().format(long)
