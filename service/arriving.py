"""While a message is on its way here: what becomes of a caller who does not send it, or has gone."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import grpc

from headlight.errors import DeadlineExceeded
from service.connections import bytes_received
from service.sending import PACE_BYTES, allowance

Context = grpc.aio.ServicerContext[Any, Any]
TOGETHER = 64  # messages of the largest size, sent at once, for which a connection that brings something is given time
HUNG_UP_SECONDS = 0.01  # between two things that gRPC tells: less than 1 ms, unless the machine is busy
LEAST_PAUSE = 0.05  # of `stall_seconds`, between two looks at all that have not come


async def no_more() -> None:
    """To be awaited where a call brings no more messages and nothing else is waited for: is cancelled where its caller has gone.

    gRPC tells of that in two steps: first the read fails, which looks like the end of the messages, and a moment later the call is
    cancelled, which nobody would notice who has ended it by then. In what ends well this is a delay.
    """
    await asyncio.sleep(HUNG_UP_SECONDS)


class Arrivals:
    """The messages that calls are to send. gRPC keeps what has come of one, in no permit, until the rest comes or the call is over.

    One timer for all: nearly every message has come before anybody could look.
    """

    def __init__(self, stall_seconds: float, size: int) -> None:
        """None is waited for.

        Args:
            stall_seconds: see `allowance`.
            size: bytes of the largest message.
        """
        self.stall_seconds = stall_seconds
        self.usual = allowance(stall_seconds, size)
        self.longest = allowance(stall_seconds, TOGETHER * size)
        self._waiting: dict[Arriving, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, arriving: Arriving) -> None:
        """One more is waited for."""
        self._waiting[arriving] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.usual, self._look)

    def discard(self, arriving: Arriving) -> None:
        """It has come, or never will."""
        del self._waiting[arriving]

    def _look(self) -> None:
        """End the calls whose time is over; wait for the next."""
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        for arriving in self._waiting:
            arriving.look(now)
        due = min((arriving.due for arriving in self._waiting if not arriving.late), default=None)
        if due is not None:
            self._timer = loop.call_at(max(due, now + LEAST_PAUSE * self.stall_seconds), self._look)


class Arriving:
    """Around the wait for one message, from within the call's task.

    Other messages that come on the same connection make it late: after its time it gets more, while the connection brings PACE_BYTES
    in each `stall_seconds`.

    Attributes:
        due: when it is looked for, on the event loop's clock.
        late: it is waited for no longer.
    """

    __slots__ = ("_arrivals", "_begun", "_context", "_received", "_task", "due", "late")

    def __init__(self, arrivals: Arrivals, context: Context) -> None:
        task = asyncio.current_task()
        assert task is not None  # gRPC's
        self._arrivals, self._context, self._task = arrivals, context, task
        self._begun = asyncio.get_running_loop().time()
        self.due = self._begun + arrivals.usual
        self._received: int | None = None
        self.late = False

    def __enter__(self) -> None:
        self._arrivals.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises DeadlineExceeded where it did not come in time."""
        self._arrivals.discard(self)
        if not self.late or self._task.uncancel():  # by the caller's leaving too
            return
        if kind is asyncio.CancelledError:
            seconds = asyncio.get_running_loop().time() - self._begun
            problem = f"the request did not arrive within {seconds:.3g} s; send less at once, or ask for a longer --stall-seconds"
            raise DeadlineExceeded(problem) from None

    def look(self, now: float) -> None:
        """Cancel the wait where its time is over and its connection brings too little."""
        if self.late or now < self.due:
            return
        before, self._received = self._received, bytes_received(self._context.peer())
        brings = self._received is not None and (before is None or self._received - before >= PACE_BYTES)
        if brings and now < self._begun + self._arrivals.longest:
            self.due = now + self._arrivals.stall_seconds
        else:
            self.late = True
            self._task.cancel()
