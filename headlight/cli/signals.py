"""Signals that end a long command of the command line, once and for good."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
NOTICED_SECONDS = 0.5


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that would end the block are ignored: gRPC waits for ever to close a channel whose closing was interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does. Raises Terminated then."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def result_of(future: futures.Future[T], seconds: float | None) -> T:
    """What `future.result(seconds)` returns and raises, in pieces.

    A signal that comes just as Python begins to wait for a lock is noticed when it has waited, which may be never.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not futures.wait([future], min(NOTICED_SECONDS, max(0.0, end - time.monotonic()))).done:
        if time.monotonic() >= end:
            raise TimeoutError
    return future.result()
