"""Log handler that never blocks: a thread writes the lines of a bounded queue to standard error."""

from __future__ import annotations

import logging
import os
import queue
import select
import threading

from prometheus_client import Counter

REASONS = ("rate", "queue_full", "failed")
MOST_QUEUED_BYTES = 1 << 20  # some 4,000 lines; a pipe holds 64 KiB more
FLUSH_SECONDS = 1.0  # at the end of the process; there may be no reader

# Not defined in headlight_service.telemetry.metrics: lines are dropped before there are metrics.
DROPPED = Counter(
    "headlight_log_lines_dropped",
    "Lines left out of the log: too many of one kind, the queue was full, or the write failed.",
    ["reason"],
    registry=None,
)
# The series exist from the start, at zero. A lookup by label takes a lock, which could delay a line
# at a bad moment.
RATE, QUEUE_FULL, FAILED = (DROPPED.labels(each) for each in REASONS)


class Writer(logging.Handler):
    """Handler that queues whole lines for a thread. It drops and counts those that do not fit."""

    def __init__(self, descriptor: int, most_queued_bytes: int = MOST_QUEUED_BYTES) -> None:
        """Start the thread.

        Args:
            descriptor: descriptor of an open file, which stays open.
            most_queued_bytes: limit of the queue.
        """
        super().__init__()
        self._descriptor = descriptor
        self._most = most_queued_bytes
        self._queue: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        # Bytes queued so far, by emit under the handler's lock, and bytes done, by the thread.
        self._queued = self._done = 0
        self._torn = False  # whether the last line written is incomplete
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:  # the usual report would print the record
            FAILED.inc()
            return
        if self._queued - self._done + len(line) > self._most:
            QUEUE_FULL.inc()
            return
        self._queued += len(line)
        self._queue.put(line)

    def flush(self) -> None:
        """Wait until all lines so far are written, at most FLUSH_SECONDS."""
        written = threading.Event()
        self._queue.put(written)
        written.wait(FLUSH_SECONDS)

    def _run(self) -> None:
        while True:
            entry = self._queue.get()
            if isinstance(entry, threading.Event):
                entry.set()
                continue
            try:
                self._write(b"\n" + entry if self._torn else entry)
            except Exception:  # the thread must live: without it every line is lost
                FAILED.inc()
            self._done += len(entry)

    def _write(self, line: bytes) -> None:
        rest = line
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that shares the pipe has made it non-blocking
                waiting = select.poll()  # `select` takes no descriptor from 1024 on
                waiting.register(self._descriptor, select.POLLOUT)
                waiting.poll()
            except OSError:  # no reader, or a full disk: the next line is tried again
                FAILED.inc()
                self._torn = len(rest) < len(line) or self._torn
                return
        self._torn = False
