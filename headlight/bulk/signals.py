"""Handling of the signals that end a long command."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
NOTICED_SECONDS = 0.5


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


def undisturbed() -> contextlib.AbstractContextManager[None]:
    """Ignore SIGINT and SIGTERM in the block.

    If the closing of a channel is interrupted, gRPC waits forever to close it.
    """
    return handled({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_IGN})


def ended_by_sigterm() -> contextlib.AbstractContextManager[None]:
    """End the block on SIGTERM as on Ctrl-C. Raises Terminated then."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    return handled({signal.SIGTERM: end})


@contextlib.contextmanager
def handled(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Set signal handlers for the block, if it runs in the main thread, which owns them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def result_of(future: futures.Future[T], seconds: float | None) -> T:
    """Wait for `future.result(seconds)` in pieces.

    Python handles a signal at the start of a lock wait only after the wait, which may never end.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not futures.wait([future], min(NOTICED_SECONDS, max(0.0, end - time.monotonic()))).done:
        if time.monotonic() >= end:
            raise TimeoutError
    return future.result()
