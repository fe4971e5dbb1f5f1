"""Backpressure of a stream: how many bytes of answers it may hold at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError


class AnswerGate:
    """Bytes that may be held at once; more than that only by a lone holder. First come, first served."""

    def __init__(self, limit: int, free_bytes: int) -> None:
        """Nothing is held.

        Args:
            limit: bytes of answers at once.
            free_bytes: an answer of at most so many is not counted: it need not wait until a large
                one has been read, and there are never more of them than requests in flight.
        """
        self._limit, self._free_bytes = limit, free_bytes
        self._held = 0
        self._closed = self._busy = False
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Callable[[], None], int] = OrderedDict()

    def enter(self, size: int, proceed: Callable[[], None]) -> bool:
        """Hold so many bytes now, and return True; else call `proceed` once they are held.

        Raises:
            CancelledError: the stream has ended.
        """
        if size <= self._free_bytes:
            return True
        with self._lock:
            if self._closed:
                raise CancelledError
            if not self._waiting and (not self._held or self._held + size <= self._limit):
                self._held += size
                return True
            self._waiting[proceed] = size
            return False

    def withdraw(self, proceed: Callable[[], None]) -> bool:
        """Wait no longer; False: it does not wait (any more)."""
        with self._lock:
            waited = self._waiting.pop(proceed, None) is not None
        if waited:
            self._let_in()  # those behind it may fit
        return waited

    def close(self) -> None:
        """Let nothing more in: nobody reads any longer, and `proceed` is called no more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def leave(self, size: int) -> None:
        """Let go of the bytes that were entered with, and let others in."""
        if size > self._free_bytes:
            with self._lock:
                self._held -= size
            self._let_in()

    def _let_in(self) -> None:
        """Call what fits, one after another: what is called may leave in turn, and is not nested."""
        while (proceed := self._next()) is not None:
            proceed()
            self._busy = False

    def _next(self) -> Callable[[], None] | None:
        """Take what can be let in, unless somebody does so already, who will look again."""
        with self._lock:
            if self._busy or not self._waiting:
                return None
            proceed, wanted = next(iter(self._waiting.items()))
            if self._held and self._held + wanted > self._limit:
                return None
            del self._waiting[proceed]
            self._held += wanted
            self._busy = True
            return proceed
