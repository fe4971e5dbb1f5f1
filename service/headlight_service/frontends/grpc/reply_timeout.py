"""While an answer is on its way: what it holds until it has left, and what becomes of a caller who does not take it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc

from headlight_service.core.admission.permits import Permit
from headlight_service.frontends.grpc.transport.connection_traffic import bytes_taken, close_connection
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.telemetry.request_id import given_id
from headlight_service.telemetry.request_trace import CURRENT

log = logging.getLogger("headlight_service.frontends.grpc.reply_timeout")
PACE_BYTES = 16 << 20  # that a reader may take `stall_seconds` for, beside those that everyone has: 0.8 MB/s at 20 s
LEAST_LINGER_SECONDS = 5.0
LEAST_MORE = 0.05  # of `stall_seconds`: who gets less than that in addition will not make it
MOST_NAMED = 16  # calls of one connection in one line of the log


def allowance(stall_seconds: float, size: int) -> float:
    """Seconds within which so many bytes must be taken: not one after another, or a byte now and then would be enough."""
    return stall_seconds * (1 + size / PACE_BYTES)


def _nothing() -> None:
    pass


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


class Together:
    """Answers that are under way on one connection at the same time: they reach their reader together, each late.

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
        """Bytes that this reader took since, but no more than the answers have: whoever asks for more gets no more time by it."""
        known = bytes_taken(self._peer)
        return 0 if self._begun is None or known is None else min(self.size, known - self._begun)


class Sending:
    """The last stage of a call, from when its handler has nothing more to say until the transport has sent it all.

    A handler that has returned has sent nothing yet: its answer is in the transport's memory until the caller takes it.
    """

    def __init__(self, call: Call, others: set[Sending]) -> None:
        """Begin with the call's handler.

        Args:
            call: whose answer is sent.
            others: all calls of this server that are in this stage.
        """
        self._call = call
        self._others = others
        self._permits: list[Permit] = []
        self._timer: asyncio.TimerHandle | None = None
        self._together: Together | None = None
        self._stall_seconds, self._begun, self._size = 0.0, 0.0, 0
        self._on_cut: Callable[[], None] = _nothing
        self._spans = CURRENT.get()
        call.when_over(self._done)

    def hold(self, permit: Permit) -> None:
        """Keep a permit until the call is over."""
        self._permits.append(permit)

    def limit(self, stall_seconds: float, size: int = 0, on_cut: Callable[[], None] = _nothing) -> None:
        """Close the caller's connection unless it takes everything in time.

        That is the time for so many bytes, from now; where other answers are under way on the connection, for what it takes of all.

        Args:
            stall_seconds: see `allowance`.
            size: bytes of the answer.
            on_cut: called where it comes to that.
        """
        loop = asyncio.get_running_loop()
        self._stall_seconds, self._size, self._on_cut = stall_seconds, size, on_cut
        self._begun = loop.time()
        # Hardly an answer takes so long, and what each costs is a timer.
        self._timer = loop.call_at(self._begun + stall_seconds / 2, self._look)
        self._others.add(self)

    def linger(self, seconds: float) -> None:
        """Limit what a stream leaves to the transport. Other calls share the connection, and the last word waits in it: no hurry."""
        self.limit(max(seconds, LEAST_LINGER_SECONDS))

    def _look(self) -> None:
        """See how much the reader takes from here on, of all that it is being sent: whatever joins makes the rest later."""
        companions = self._companions()
        fresh = [each for each in companions if each._together is None]
        if not fresh:
            return
        size = sum(each._size for each in fresh)
        for known in {each._together for each in companions if each._together is not None}:
            known.size += size
        together = Together(self._call.peer(), sum(each._size for each in companions))
        for each in fresh:
            each._together = together
            each._wait(each._size)

    def _wait(self, size: int) -> None:
        """Wait for as long as so many bytes may take."""
        if self._timer is not None:
            self._timer.cancel()
        due = self._begun + allowance(self._stall_seconds, size)
        self._timer = asyncio.get_running_loop().call_at(due, self._late)

    def _late(self) -> None:
        self._look()
        taken = 0 if self._together is None else self._together.taken
        more = self._begun + allowance(self._stall_seconds, taken) - asyncio.get_running_loop().time()
        if more > LEAST_MORE * self._stall_seconds:
            self._wait(taken)
        else:
            self._cut()

    def _companions(self) -> list[Sending]:
        """All that is under way on the same connection, this included."""
        peer = self._call.peer()
        return [each for each in self._others if each._call.peer() == peer]

    def _cut(self) -> None:
        lost = self._companions()
        for each in lost:
            each._unlimited()  # gRPC notices one after another that they have ended, and they are to be counted once
            each._on_cut()
            each._call.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)  # what it is counted as; nobody will read it
        found = close_connection(self._call.peer())
        ids = [given_id(each._call.invocation_metadata()) for each in lost[:MOST_NAMED]]
        about: dict[str, object] = {"event": "reader_cut", "calls": len(lost), "found": found}
        about["request_ids"] = [given for given in ids if given]
        if self._spans is not None:
            about["trace_ids"] = [each._spans.trace_id for each in lost[:MOST_NAMED] if each._spans is not None]
        log.warning("an answer was not taken; its connection is closed", extra=about)

    def _unlimited(self) -> None:
        self._others.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _done(self) -> None:
        self._unlimited()
        for permit in self._permits:
            permit.give_back()
        self._permits.clear()
