"""Backpressure of a stream: a limit on the bytes of answers that it holds at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError


class AnswerWindow:
    """Limit on bytes held at once; only a lone holder may exceed it. First come, first served."""

    def __init__(self, limit: int, free_bytes: int) -> None:
        """Start with nothing held.

        Args:
            limit: bytes of answers at once.
            free_bytes: largest answer that is not counted. It need not wait until a large answer
                has been read. There are never more of them than requests in flight.
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
        """Stop waiting, and return whether `proceed` was still waiting."""
        with self._lock:
            waited = self._waiting.pop(proceed, None) is not None
        if waited:
            self._let_in()  # items behind it may fit
        return waited

    def close(self) -> None:
        """Let nothing more in, because the client no longer reads. No `proceed` is called again."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def leave(self, size: int, left: int = 0) -> None:
        """Release the held bytes but `left` of them, and let waiting answers in."""
        released = self._counted(size) - self._counted(left)
        if released:
            with self._lock:
                self._held -= released
            self._let_in()

    def _counted(self, size: int) -> int:
        return size if size > self._free_bytes else 0

    def _let_in(self) -> None:
        """Call each `proceed` that fits, in turn. It may call `leave`; calls do not nest."""
        while (proceed := self._next()) is not None:
            proceed()
            self._busy = False

    def _next(self) -> Callable[[], None] | None:
        """Take the next that fits; None: it does not fit, or another thread takes it later."""
        with self._lock:
            if self._busy or not self._waiting:
                return None
            proceed, size = next(iter(self._waiting.items()))
            if self._held and self._held + size > self._limit:
                return None
            del self._waiting[proceed]
            self._held += size
            self._busy = True
            return proceed
