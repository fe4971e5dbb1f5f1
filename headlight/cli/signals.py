"""Signals that end a long command of the command line, once and for good."""

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
    """SIGTERM came."""


def undisturbed() -> contextlib.AbstractContextManager[None]:
    """Signals that would end the block are ignored: gRPC waits for ever to close a channel whose closing was interrupted."""
    return handled({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_IGN})


def ended_by_sigterm() -> contextlib.AbstractContextManager[None]:
    """SIGTERM ends the block as Ctrl-C does. Raises Terminated then."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    return handled({signal.SIGTERM: end})


@contextlib.contextmanager
def handled(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Signals have these handlers in the block, if it runs in the main thread, whose they are."""
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
    """What `future.result(seconds)` returns and raises, in pieces.

    A signal that comes just as Python begins to wait for a lock is noticed when it has waited, which may be never.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not futures.wait([future], min(NOTICED_SECONDS, max(0.0, end - time.monotonic()))).done:
        if time.monotonic() >= end:
            raise TimeoutError
    return future.result()
