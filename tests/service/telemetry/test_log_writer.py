"""Non-blocking log writing, and the count of lost lines."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headlight_service.telemetry import log_writer as module
from headlight_service.telemetry.json_logs import JsonFormatter
from headlight_service.telemetry.log_writer import DROPPED, Writer

PIPE_BYTES = 4096  # the smallest pipe capacity


class Pipe:
    """Pipe and a logger that writes to it."""

    def __init__(self, most_queued_bytes: int) -> None:
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.handler = Writer(self.writer, most_queued_bytes)
        self.handler.setFormatter(JsonFormatter())
        self.log = logging.Logger("headlight_service.test")
        self.log.addHandler(self.handler)
        self._before = {reason: self._count(reason) for reason in module.REASONS}

    def _count(self, reason: str) -> float:
        return float(DROPPED.labels(reason)._value.get())

    def dropped(self, reason: str) -> float:
        return self._count(reason) - self._before[reason]

    def read(self, count: int) -> list[dict[str, Any]]:
        """Read so many lines, each of them JSON."""
        found = b""
        while found.count(b"\n") < count:
            found += os.read(self.reader, 1 << 16)
        return [json.loads(line) for line in found.splitlines() if line]

    def read_to_the_end(self) -> bytes:
        found = b""
        while received := os.read(self.reader, 1 << 16):
            found += received
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(64 << 10)
    yield made
    for descriptor in (made.reader, made.writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def test_lines_are_whole_and_in_order(pipe: Pipe) -> None:
    for number in range(20):
        pipe.log.warning("é\n\ud800 %s", number)
    pipe.handler.flush()
    assert [entry["message"] for entry in pipe.read(20)] == [
        f"é\n\ud800 {number}" for number in range(20)
    ]


def test_an_unread_pipe_drops_lines_and_does_not_block(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.2)
    begun = time.monotonic()
    for _ in range(1000):
        pipe.log.warning("x" * 200)
    pipe.handler.flush()
    assert time.monotonic() - begun < 10
    lost = int(pipe.dropped("queue_full"))
    assert lost > 500
    assert len(pipe.read(1000 - lost)) == 1000 - lost
    pipe.log.warning("read again")
    assert pipe.read(1)[0]["message"] == "read again"


def test_a_pipe_made_non_blocking_by_another_process_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    for number in range(100):
        pipe.log.warning("%s", number)
    assert [entry["message"] for entry in pipe.read(100)] == [str(number) for number in range(100)]


def test_without_a_reader_each_line_is_tried_once(pipe: Pipe) -> None:
    os.close(pipe.reader)
    used = time.process_time()
    for _ in range(10):
        pipe.log.warning("nobody reads this")
    pipe.handler.flush()
    assert pipe.dropped("failed") == 10
    assert time.process_time() - used < 1


def test_the_line_after_a_truncated_one_starts_on_a_new_line(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that was full for a while."""
    write, full = os.write, [False]

    def write_some(descriptor: int, data: bytes) -> int:
        if full[0]:
            raise OSError(28, "No space left on device")
        full[0] = len(data) > 500
        return write(descriptor, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        pipe.log.warning("x" * 1000)
        pipe.handler.flush()
    pipe.log.warning("room again")
    pipe.handler.flush()
    os.close(pipe.writer)
    cut, whole = pipe.read_to_the_end().splitlines()
    assert len(cut) == 50
    assert json.loads(whole)["message"] == "room again"


def test_a_record_that_cannot_be_formatted_is_counted(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.log.warning("%d", "secret")
    pipe.handler.flush()
    assert pipe.dropped("failed") == 1
    assert capsys.readouterr() == ("", "")
