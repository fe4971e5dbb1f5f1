"""While a message is on its way here: what becomes of a caller who does not send it, or has gone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time

from headlight.errors import DeadlineExceeded
from headlight_service.frontends.grpc.reply_timeout import PACE_BYTES, allowance
from headlight_service.frontends.grpc.transport.connection_traffic import bytes_received
from headlight_service.frontends.grpc.transport.grpc_call import Call

TOGETHER = 64  # messages of the largest size, sent at once, for which a connection that brings something is given time
HUNG_UP_SECONDS = 0.01  # between two things that gRPC tells: less than 1 ms, unless the machine is busy
LEAST_PAUSE = 0.05  # of `stall_seconds`, between two looks at all that have not come


async def no_more() -> None:
    """Wait a moment at the end of the messages; be cancelled if the caller has gone.

    gRPC reports a caller who has gone in two steps. The read ends first, as it does after the last
    message; the end of the call follows within a millisecond.
    """
    await asyncio.sleep(HUNG_UP_SECONDS)


class Arrivals:
    """The messages that calls are to send. gRPC keeps what has come of one until the rest comes.

    One timer for all: nearly every message has come before it is looked for.
    """

    def __init__(self, stall_seconds: float, size: int) -> None:
        """Belong to the running event loop.

        Args:
            stall_seconds: see `allowance`.
            size: bytes of the largest message.
        """
        self._stall_seconds = stall_seconds
        self._usual = allowance(stall_seconds, size)
        self._longest = allowance(stall_seconds, TOGETHER * size)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, _Arriving] = {}
        self._timed = False

    def add(self, call: Call) -> None:
        """Wait for the message of one more call. From any thread."""
        now = self._loop.time()
        self._waiting[call] = _Arriving(now, now + self._usual)
        if not self._timed:
            self._timed = True
            self._loop.call_soon_threadsafe(self._wait, self._usual)

    def discard(self, call: Call) -> None:
        """Wait no longer: it has come, or never will. From any thread."""
        self._waiting.pop(call, None)

    def interrupt_oldest(self) -> None:
        """Stop waiting for the message of the call that has been waited for longest. From any thread."""
        with contextlib.suppress(StopIteration, RuntimeError):  # all have come, or more came meanwhile
            call = next(iter(self._waiting))
            self.discard(call)
            call.interrupt()

    def late(self, call: Call) -> DeadlineExceeded:
        """The error of a call whose message did not come in time."""
        seconds = time.perf_counter() - call.begun
        problem = f"the request did not arrive within {seconds:.3g} s"
        return DeadlineExceeded(f"{problem}; send less at once, or ask for a longer --stall-seconds")

    def _wait(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Interrupt the calls whose time is over; look again when the next one's is."""
        now = self._loop.time()
        for call, arriving in self._waiting.copy().items():  # threads add to it
            if now >= arriving.due and not self._goes_on(call, arriving, now):
                self._waiting.pop(call, None)
                call.interrupt()
        left = [arriving.due for arriving in self._waiting.copy().values()]
        self._timed = bool(left)
        if left:
            self._wait(max(min(left) - now, LEAST_PAUSE * self._stall_seconds))
        elif self._waiting and not self._timed:  # one more came while we looked
            self._timed = True
            self._wait(self._usual)

    def _goes_on(self, call: Call, arriving: _Arriving, now: float) -> bool:
        """Return whether the call's connection brings enough for it to be given more time.

        Other messages on the same connection make it late: after its time it gets more, while the
        connection brings PACE_BYTES in each `stall_seconds`.
        """
        before, arriving.received = arriving.received, bytes_received(call.peer())
        known = arriving.received is not None
        brings = known and (before is None or (arriving.received or 0) - before >= PACE_BYTES)
        if not brings or now >= arriving.begun + self._longest:
            return False
        arriving.due = now + self._stall_seconds
        return True


@dataclasses.dataclass(slots=True)
class _Arriving:
    """One message that is waited for: times on the event loop's clock, bytes of its connection."""

    begun: float
    due: float
    received: int | None = None
