"""Callers that do not send their message, and callers that do not take their answer.

One watch for each: all of it is looked at together, by one timer on the event loop, since nearly
every message has come, and nearly every answer is taken, before it is looked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import math
import threading
import time
from collections.abc import Callable

import grpc

from headlight.errors import DeadlineExceeded
from headlight_service.frontends.grpc.transport.connection_traffic import (
    bytes_received,
    bytes_taken,
    close_connection,
)
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.grpc.transport.isolated_steps import attempt
from headlight_service.telemetry.request_id import given_id

log = logging.getLogger("headlight_service.frontends.grpc.peer_timeouts")
PACE_BYTES = 16 << 20  # that a peer may take `stall_seconds` for, beside those that it has: 0.8 MB/s at 20 s
AT_ONCE = 64  # messages of the largest size, sent at once, for which a connection is given time
HUNG_UP_SECONDS = 0.01  # between two things that gRPC tells: less than 1 ms, unless the machine is busy
LEAST_PAUSE = 0.05  # of `stall_seconds`, between two looks
LEAST_MORE = 0.05  # of `stall_seconds`: a reader that gets less than that in addition will not make it
LEAST_LINGER_SECONDS = 5.0
MOST_NAMED = 16  # calls of one connection in one line of the log


def allowance(stall_seconds: float, size: int) -> float:
    """Return the seconds within which so many bytes must be moved: a byte now and then is not enough."""
    return stall_seconds * (1 + size / PACE_BYTES)


async def no_more() -> None:
    """Wait a moment at the end of the messages; be cancelled if the caller has gone.

    gRPC reports a caller that has gone in two steps. The read ends first, as it does after the last
    message; the end of the call follows within a millisecond.
    """
    await asyncio.sleep(HUNG_UP_SECONDS)


def has_hung_up(call: Call) -> bool:
    """Wait a moment likewise, on the call's thread; return whether the caller has gone."""
    gone = threading.Event()
    call.when_gone(gone.set)
    return gone.wait(HUNG_UP_SECONDS)


@dataclasses.dataclass(slots=True, eq=False)
class _Waited:
    """Something that is waited for, with times on the event loop's clock.

    Attributes:
        due: when it is looked at.
        size: bytes of it.
        moved: bytes that its connection had moved when it was looked at last; None: not known.
        together: what else is under way on its connection.
    """

    begun: float
    due: float
    size: int = 0
    moved: int | None = None
    together: _Together | None = None
    on_cut: Callable[[], None] | None = None


class _Watch:
    """Calls, each of which waits for its peer. From any thread, but for `_look`."""

    def __init__(self, stall_seconds: float) -> None:
        """Belong to the running event loop. `stall_seconds`: see `allowance`."""
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, _Waited] = {}
        self._next = math.inf  # when they are looked at
        self._timer: asyncio.TimerHandle | None = None

    def discard(self, call: Call) -> None:
        """Wait no longer: it is over, or never will be."""
        self._waiting.pop(call, None)

    def _add(self, call: Call, waited: _Waited) -> None:
        self._waiting[call] = waited
        if waited.due < self._next:
            self._next = waited.due
            self._loop.call_soon_threadsafe(self._wait, waited.due)

    def _wait(self, due: float) -> None:
        """Look at `due`, unless that is done before."""
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """Judge the calls whose time is over; look again when the next one's is."""
        self._timer, now = None, self._loop.time()
        for call, waited in self._waiting.copy().items():  # threads add to it
            if now >= waited.due and call in self._waiting:
                attempt(functools.partial(self._judge, call, waited, now))
        self._next = math.inf
        due = min((waited.due for waited in self._waiting.copy().values()), default=math.inf)
        if due < self._next:  # else one more came while we looked
            self._next = max(due, now + LEAST_PAUSE * self._stall_seconds)
            self._wait(self._next)

    def _judge(self, call: Call, waited: _Waited, now: float) -> None:
        """Give a call more time, or end it."""
        raise NotImplementedError


class Arrivals(_Watch):
    """The messages that calls are to send. gRPC keeps what has come of one until the rest comes."""

    def __init__(self, stall_seconds: float, size: int) -> None:
        """Belong to the running event loop.

        Args:
            stall_seconds: see `allowance`.
            size: bytes of the largest message.
        """
        super().__init__(stall_seconds)
        self._usual = allowance(stall_seconds, size)
        self._longest = allowance(stall_seconds, AT_ONCE * size)

    def add(self, call: Call) -> None:
        """Wait for the message of one more call."""
        now = self._loop.time()
        self._add(call, _Waited(now, now + self._usual))

    def interrupt_oldest(self) -> None:
        """Stop waiting for the message of the call that has been waited for longest."""
        with contextlib.suppress(StopIteration, RuntimeError):  # all have come, or more came meanwhile
            call = next(iter(self._waiting))
            self.discard(call)
            call.interrupt()

    def late(self, call: Call) -> DeadlineExceeded:
        """Return the error of a call whose message did not come in time."""
        seconds = time.perf_counter() - call.begun
        problem = f"the request did not arrive within {seconds:.3g} s"
        return DeadlineExceeded(f"{problem}; send less at once, or ask for a longer --stall-seconds")

    def _judge(self, call: Call, waited: _Waited, now: float) -> None:
        """Other messages on the same connection make one late: it gets more time while they come."""
        before, waited.moved = waited.moved, bytes_received(call.peer())
        brings = waited.moved is not None and (before is None or waited.moved - before >= PACE_BYTES)
        if brings and now < waited.begun + self._longest:
            waited.due = now + self._stall_seconds
        else:
            self.discard(call)
            call.interrupt()


class _Together:
    """Answers under way on one connection at the same time: they reach their reader together, each late.

    Attributes:
        size: bytes of all of them, those that joined later included.
    """

    def __init__(self, peer: str, size: int) -> None:
        """Bytes that are taken count from here on."""
        self.size = size
        self._peer = peer
        self._begun = bytes_taken(peer)

    @property
    def taken(self) -> int:
        """Bytes that this reader took since, but no more than the answers have."""
        known = bytes_taken(self._peer)
        return 0 if self._begun is None or known is None else min(self.size, known - self._begun)


class Replies(_Watch):
    """The answers that callers are to take. They are in the transport's memory until then."""

    def add(self, call: Call, size: int = 0, on_cut: Callable[[], None] | None = None) -> None:
        """Close the caller's connection unless it takes everything in time.

        That is the time for so many bytes, from now; if other answers are under way on the
        connection, for what it takes of all.

        Args:
            call: whose handler has nothing more to say.
            size: bytes of the answer.
            on_cut: called if it comes to that.
        """
        now = self._loop.time()
        self._add(call, _Waited(now, now + self._stall_seconds / 2, size, on_cut=on_cut))
        call.acts.append(functools.partial(self.discard, call))

    def linger(self, call: Call) -> None:
        """Limit what a stream leaves to the transport. Other calls share the connection: no hurry."""
        now = self._loop.time()
        more = max(self._stall_seconds, LEAST_LINGER_SECONDS) - self._stall_seconds
        self._add(call, _Waited(now + more, now + more + self._stall_seconds / 2))
        call.acts.append(functools.partial(self.discard, call))

    def _judge(self, call: Call, waited: _Waited, now: float) -> None:
        first = waited.together is None
        together = self._join(call, waited)
        # Hardly an answer takes half of its time, and only then is it looked at what its reader takes.
        size = waited.size if first else together.taken
        due = waited.begun + allowance(self._stall_seconds, size)
        if first or due - now > LEAST_MORE * self._stall_seconds:
            waited.due = due
        elif call in self._waiting:  # and has not just ended
            self._cut(call)

    def _join(self, call: Call, waited: _Waited) -> _Together:
        """See how much the reader takes from here on, of all that it is being sent."""
        companions = self._companions(call) | {call: waited}  # which another thread may have discarded
        fresh = [each for each in companions.values() if each.together is None]
        if fresh:
            size = sum(each.size for each in fresh)
            for known in {each.together for each in companions.values()}:
                if known is not None:
                    known.size += size
            together = _Together(call.peer(), sum(each.size for each in companions.values()))
            for each in fresh:
                each.together = together
                each.due = each.begun + allowance(self._stall_seconds, each.size)
        assert waited.together is not None
        return waited.together

    def _companions(self, call: Call) -> dict[Call, _Waited]:
        """All that is under way on the same connection, this included."""
        peer = call.peer()
        return {each: waited for each, waited in self._waiting.copy().items() if each.peer() == peer}

    def _cut(self, call: Call) -> None:
        lost = self._companions(call)
        for each, waited in lost.items():
            self.discard(each)  # gRPC notices one after another that they have ended
            if waited.on_cut is not None:
                waited.on_cut()
            each.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)  # what it is counted as; nobody reads it
        found = close_connection(call.peer())
        named = [*lost][:MOST_NAMED]
        ids = [given_id(each.invocation_metadata()) for each in named]
        about: dict[str, object] = {"event": "reader_cut", "calls": len(lost), "found": found}
        about["request_ids"] = [given for given in ids if given]
        if call.trace is not None:
            about["trace_ids"] = [each.trace.trace_id for each in named if each.trace is not None]
        log.warning("an answer was not taken; its connection is closed", extra=about)


class Patience:
    """How long the reader of one answer may keep us waiting. Only our waiting counts, not what we do between frames."""

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._taken = 0
        self._waited = 0.0

    @property
    def left(self) -> float:
        """Seconds for the next frame."""
        return min(self._stall_seconds, allowance(self._stall_seconds, self._taken) - self._waited)

    def took(self, size: int, seconds: float) -> None:
        """Learn that so many bytes were taken, after so long."""
        self._taken += size
        self._waited += seconds
