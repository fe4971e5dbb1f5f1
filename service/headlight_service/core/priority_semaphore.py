"""Whose turn it is at something that only so many can use at once. For the event loop's thread alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from headlight.wire.priority import PRIORITIES, Priority
from headlight_service.core.scheduler.batch_policy import BULK_TURN


class Turns:
    """Interactive goes first, and of several places one is never bulk's: it would be held for as long as bulk's work takes.

    As with batches, every BULK_TURN-th turn is bulk's where both wait.
    """

    def __init__(self, count: int) -> None:
        """All places are free. `count`: of them, one or more."""
        self._free = count
        self._free_to_bulk = max(1, count - 1)
        self._waiting: dict[Priority, deque[asyncio.Future[None]]] = {priority: deque() for priority in PRIORITIES}
        self._overtaken = 0  # turns of interactive in a row that bulk waited for, and could have had

    @contextlib.asynccontextmanager
    async def take(self, priority: Priority) -> AsyncIterator[None]:
        """Wait for a place, and have it until left."""
        await self._wait(priority)
        try:
            yield
        finally:
            self._leave(priority)

    async def _wait(self, priority: Priority) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(turn)
        self._give()
        if turn.done():
            return
        try:
            await asyncio.wait([turn])  # which leaves it as it is where we are cancelled
        except asyncio.CancelledError:
            if turn.done():  # it came at the same moment
                self._leave(priority)
            else:
                self._waiting[priority].remove(turn)
            raise

    def _leave(self, priority: Priority) -> None:
        self._free += 1
        self._free_to_bulk += priority == "bulk"
        self._give()

    def _give(self) -> None:
        """Give away the places that are free."""
        while self._free and (priority := self._next()) is not None:
            turn = self._waiting[priority].popleft()
            self._free -= 1
            self._free_to_bulk -= priority == "bulk"
            turn.set_result(None)

    def _next(self) -> Priority | None:
        """Who is next, of those that may be."""
        bulk = bool(self._waiting["bulk"]) and self._free_to_bulk > 0
        if self._waiting["interactive"] and not (bulk and self._overtaken >= BULK_TURN - 1):
            self._overtaken = self._overtaken + 1 if bulk else 0
            return "interactive"
        self._overtaken = 0
        return "bulk" if bulk else None
