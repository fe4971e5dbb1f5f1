"""Peer timeouts: request timeouts for messages that do not come, reply timeouts for unread answers.

One watch for each, with one timer on the event loop that checks all calls together now and then.
Nearly every message has come, and nearly every answer is taken, before its check.
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
from collections.abc import Callable, Mapping
from typing import TypeVar

import grpc

from headlight.errors import DeadlineExceeded, Reason
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.core.handle import Handle
from headlight_service.core.models import ServedModel
from headlight_service.frontends.grpc.transport.connection_traffic import (
    bytes_moved,
    close_connection,
)
from headlight_service.frontends.grpc.transport.grpc_call import Call, attempt
from headlight_service.frontends.stall_timeout import allowance
from headlight_service.telemetry.request_id import given_id

T = TypeVar("T")
log = logging.getLogger("headlight_service.frontends.grpc.peer_timeouts")
AT_ONCE = 64  # messages of the largest size, sent at once, that a connection gets time for
AT_ONCE_BYTES = 256 << 20  # bytes of answers, likewise; a larger answer has its own time
HUNG_UP_SECONDS = 0.01  # between gRPC's two reports: less than 1 ms, unless the machine is busy
# Share of `stall_seconds` between two checks; a peer with less time left will be too late.
PAUSE = 0.05
# The pause between two checks is at least so many times the last check's duration, some 40 µs for
# each connection: checks take at most a tenth of the event loop's time.
SPARED = 9
LEAST_LINGER_SECONDS = 5.0
MOST_NAMED = 16  # calls of one connection in one line of the log


async def no_more() -> None:
    """Wait a moment at the end of the messages; be cancelled if the client disconnected.

    gRPC reports a disconnect in two steps. The read ends first, as it does after the last message;
    the end of the call follows within a millisecond.
    """
    await asyncio.sleep(HUNG_UP_SECONDS)


def has_hung_up(call: Call) -> bool:
    """Wait a moment on the call's thread; return whether the client disconnected."""
    gone = threading.Event()
    call.on_disconnect(gone.set)
    return gone.wait(HUNG_UP_SECONDS)


@dataclasses.dataclass(slots=True, eq=False)
class _Waited:
    """A wait for a peer, with times on the event loop's clock.

    Attributes:
        since: start of the counted time.
        due: time of the next check.
        latest: the limit, regardless of the bytes that the connection moves.
        size: bytes that it has time for without a check of the connection.
        moved: bytes that the connection had moved at the first check.
        on_cut: called if it times out.
    """

    since: float
    due: float
    latest: float = math.inf
    size: int = 0
    moved: int | None = None
    on_cut: Callable[[], None] | None = None


class _Watch:
    """Calls, each of which waits for its peer. Called from any thread, except the checks.

    At the first check a wait gets the time for its own bytes. From then on it gets time for the
    bytes that its connection moves: messages that share a connection delay one another.
    """

    direction: int  # of the bytes that count, in `bytes_moved`

    def __init__(self, stall_seconds: float) -> None:
        """Use the running event loop. `stall_seconds`: see `allowance`."""
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, _Waited] = {}
        self._moved: Mapping[str, tuple[int, int]] = {}
        self._took = 0.0  # seconds, of the last `bytes_moved`
        self._timer: asyncio.TimerHandle | None = None

    def discard(self, call: Call) -> None:
        """Stop waiting for a call, which is over or given up."""
        self._waiting.pop(call, None)

    def _add(self, call: Call, waited: _Waited) -> None:
        self._waiting[call] = waited
        if self._timer is None:
            self._loop.call_soon_threadsafe(self._look_later)

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(
                max(PAUSE * self._stall_seconds, SPARED * self._took), self._look
            )

    def _look(self) -> None:
        """Judge the calls whose time is over; check again while any wait."""
        self._timer, now = None, self._loop.time()
        # A copy, as threads add to it.
        late = [(call, each) for call, each in self._waiting.copy().items() if now >= each.due]
        if late:
            with contextlib.suppress(OSError):  # no more files can be opened
                self._moved = bytes_moved()
            self._took = self._loop.time() - now
        for call, waited in late:
            attempt(functools.partial(self._judge, call, waited, now))
        if self._waiting:
            self._look_later()

    def _judge(self, call: Call, waited: _Waited, now: float) -> None:
        """Give a call more time, or give it up."""
        moved = self._moved.get(call.context.peer(), (0, 0))[self.direction]
        if waited.moved is None:
            waited.moved, waited.due = (
                moved,
                waited.since + allowance(self._stall_seconds, waited.size),
            )
            return
        due = waited.since + allowance(self._stall_seconds, moved - waited.moved)
        waited.due = min(due, waited.latest)
        if waited.due - now <= PAUSE * self._stall_seconds and call in self._waiting:
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        """End a call that timed out."""
        raise NotImplementedError


class Arrivals(_Watch):
    """Request timeouts of calls. gRPC keeps the received part of a message until the rest comes."""

    direction = 1

    def __init__(self, stall_seconds: float, size: int) -> None:
        """Use the running event loop.

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
        usual = now + self._usual
        self._add(call, _Waited(usual, usual, now + self._longest))

    def interrupt_oldest(self) -> None:
        """Stop waiting for the message of the call that has waited longest."""
        # Suppressed errors: no call waits, or the dictionary changed meanwhile.
        with contextlib.suppress(StopIteration, RuntimeError):
            self._give_up(next(iter(self._waiting)))

    def late(self, call: Call) -> DeadlineExceeded:
        """Return the error of a call whose message did not come in time."""
        seconds = time.perf_counter() - call.begun
        return DeadlineExceeded(Reason.ARRIVED_TOO_SLOWLY, seconds=f"{seconds:.3g}")

    def _give_up(self, call: Call) -> None:
        self.discard(call)
        call.interrupt()


class Replies(_Watch):
    """Reply timeouts of calls. Untaken answers fill the transport's memory."""

    direction = 0

    def __init__(self, stall_seconds: float) -> None:
        """Use the running event loop. `stall_seconds`: see `allowance`."""
        super().__init__(stall_seconds)
        self._usual = allowance(stall_seconds, AT_ONCE_BYTES)

    def add(
        self,
        call: Call,
        size: int = 0,
        on_cut: Callable[[], None] | None = None,
        *,
        delay: float = 0.0,
    ) -> None:
        """Close the client's connection unless it takes everything in time.

        Args:
            call: the call; its handler has written everything.
            size: bytes of the answer.
            on_cut: called if the connection is closed.
            delay: seconds from now until the time counts.
        """
        since = self._loop.time() + delay
        # Hardly any answer takes half of its time; only then is the connection's traffic checked.
        latest = since + (
            self._usual if size <= AT_ONCE_BYTES else allowance(self._stall_seconds, size)
        )
        self._add(
            call, _Waited(since, since + self._stall_seconds / 2, latest, size, on_cut=on_cut)
        )
        call.acts.append(functools.partial(self.discard, call))

    def reply(
        self, call: Call, model: ServedModel, handle: Handle[T], encode: Callable[[T], bytes]
    ) -> bytes:
        """Wait for an answer; its resources are held until it has been sent.

        Raises:
            HeadlightError: an error of the pipeline's steps, or of `encode`.
        """
        answer = handle.result()  # a failed request has given everything back
        try:
            message = encode(answer)
        except Exception as error:
            handle.close(error)
            raise
        self.add(call, handle.answer_bytes, count_stalled(model))
        call.acts.append(handle.close)
        return message

    def linger(self, call: Call) -> None:
        """Give a stream's last bytes a generous limit: other calls share the connection."""
        self.add(call, delay=max(0.0, LEAST_LINGER_SECONDS - self._stall_seconds))

    def _give_up(self, call: Call) -> None:
        """Close the connection of a call, which ends all calls on it."""
        peer = call.context.peer()
        lost = {
            each: waited
            for each, waited in self._waiting.copy().items()
            if each.context.peer() == peer
        }
        for each, waited in lost.items():
            self.discard(each)  # gRPC notices their ends one after another
            if waited.on_cut is not None:
                waited.on_cut()
            # The code is for the counters; the client does not read it.
            each.context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
        named = [*lost][:MOST_NAMED]
        ids = [given for each in named if (given := given_id(each.context.invocation_metadata()))]
        about: dict[str, object] = {
            "event": "reader_cut",
            "calls": len(lost),
            "found": close_connection(peer),
        }
        about["request_ids"] = ids
        if call.trace is not None:
            about["trace_ids"] = [each.trace.trace_id for each in named if each.trace is not None]
        log.warning("an answer was not taken; its connection is closed", extra=about)


def count_stalled(model: ServedModel) -> Callable[[], None]:
    """Return a counter of answers that the client did not take."""
    return model.metrics.rejected[Shortage.STALLED_READER].inc
