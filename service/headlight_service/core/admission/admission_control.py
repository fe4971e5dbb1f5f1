"""Admission: nothing is read into memory, queued or computed without a permit, and there are only so many.

Three things run out, each with permits of its own: bytes of requests from before tokenising, tokens from before the queue,
bytes of results from before anything runs. A permit is held until the answer has left or, where the caller has, until no
engine works for it any more, so memory and waiting stay bounded.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

from headlight.errors import DeadlineExceeded, Overloaded
from headlight.wire.priority import Priority
from headlight_service.core.admission.permits import Permit, Pool
from headlight_service.core.admission.wait_time import Expected, Outlook
from headlight_service.frontends.grpc.answer_frames import CHUNK_BYTES

SHORTEST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 30.0
FIRST_RETRY_SECONDS = 1.0  # before any batch has shown a rate
FAR = 2.0  # times the patience: rates are guesses, and what may yet be done in time is tried
# One part in so many is kept: of the bytes of results for answers of at most CHUNK_BYTES, of the queue for what is not bulk.
RESERVE = 8


class Shortage(enum.StrEnum):
    """Why a request that is right in itself was refused: what there was too little of. A closed set, for metrics."""

    REQUEST_BYTES = "request_bytes"
    QUEUE_TOKENS = "queue_tokens"
    OUTPUT_BYTES = "output_bytes"
    DEADLINE = "wait_beyond_deadline"
    STALLED_READER = "stalled_reader"
    QUOTA = "quota"
    DEVICE_MEMORY = "device_memory"  # of a GPU, found out only by asking for it
    MEMORY = "memory"  # of the process, in the same way


class Shed(Overloaded):
    """Refused for want of something.

    Attributes:
        shortage: of what.
    """

    def __init__(self, message: str, shortage: Shortage, retry_after_seconds: float | None = None) -> None:
        super().__init__(message, retry_after_seconds)
        self.shortage = shortage


def largest_output(limit: int) -> int:
    """How large an answer may be where all results may have `limit` bytes; the rest is kept for small ones.

    Else a few slow readers of large answers would have everyone refused, those who ask for a vector included.
    """
    return max(limit - limit // RESERVE, min(limit, CHUNK_BYTES))


def outputs_for(answer: int) -> int:
    """How many bytes all results need for an answer of so many: see `largest_output`."""
    return -(-answer * RESERVE // (RESERVE - 1))


class Admission:
    """The permits of one model. For the event loop's thread alone.

    Attributes:
        requests: bytes of the messages being dealt with.
        tokens: queued or running.
        bulk: those of them that are bulk's.
        outputs: bytes of results computed or about to be, and of answers not yet sent.
        outlook: how long the queue takes.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        max_request_bytes: int,
        max_output_bytes: int,
        max_bulk_tokens: int | None = None,
        streams: int = 1,
        begins_at_once: Callable[[Priority], bool] = lambda _: False,
    ) -> None:
        """Nothing is admitted yet.

        Args:
            max_tokens: tokens that may be queued or running at once.
            max_request_bytes: bytes of all requests at once.
            max_output_bytes: bytes of all results at once.
            max_bulk_tokens: of `max_tokens`, how many bulk may have; None: all.
            streams: batches that share the CPUs without slowing one another.
            begins_at_once: whether a request of this priority would wait for nothing, though others may be running beside it.
        """
        self._begins_at_once = begins_at_once
        self.requests, self.tokens, self.outputs = Pool(max_request_bytes), Pool(max_tokens), Pool(max_output_bytes)
        self.bulk = Pool(max_tokens if max_bulk_tokens is None else max_bulk_tokens, self.tokens)
        self.outlook = Outlook(streams)

    @property
    def backlog_seconds(self) -> float:
        """How long what is admitted now will take; 0 before any batch has shown a rate."""
        return self.outlook.seconds(self.tokens.held)

    @property
    def room(self) -> int:
        """How large an answer would be taken now."""
        return max(self.outputs.free - self.outputs.limit // RESERVE, min(self.outputs.free, CHUNK_BYTES))

    def receive(self, size: int) -> Permit:
        """A permit for the bytes of a request, before it is tokenised.

        Raises:
            Shed: too many bytes are being dealt with.
        """
        if size > self.requests.free:
            used = f"requests of {self.requests.held} bytes are waiting, over {self.requests.limit} with these {size}"
            raise self._shed(used, Shortage.REQUEST_BYTES, self._retry_seconds(0))
        return self.requests.take(size)

    def admit(self, tokens: int, patience_seconds: float = math.inf, priority: Priority = "interactive") -> Permit:
        """A permit to queue so many tokens.

        Args:
            tokens: of the request.
            patience_seconds: until its caller's deadline.
            priority: what is interactive does not wait for bulk, and finds room where bulk has all that it may have.

        Raises:
            Shed: the queue is full, or would not come to these tokens in time. With the time after which half the queue,
                or so much of it, should be worked off.
            DeadlineExceeded: it has passed already: no replica can meet it.
        """
        self.look_ahead(patience_seconds, priority, tokens)
        pool = self.bulk if priority == "bulk" else self.tokens
        if tokens > pool.free:
            # Either may be what is short: the queue, or bulk's part of it.
            full, of = (
                (pool, " for bulk") if tokens > pool.limit - pool.held and pool is self.bulk else (self.tokens, "")
            )
            used = f"the queue is full{of} ({full.held} of {full.limit} tokens, {tokens} asked for)"
            raise self._shed(used, Shortage.QUEUE_TOKENS, self._retry_seconds(tokens))
        return pool.take(tokens)

    def look_ahead(self, patience_seconds: float, priority: Priority = "interactive", tokens: int = 0) -> None:
        """Refuse what the queue would not come to in time: also before it is tokenised, which is most of what a refusal costs.

        Args:
            patience_seconds: until its caller's deadline.
            priority: what is interactive does not wait for bulk.
            tokens: of the request; 0 where they are not known yet.

        Raises:
            Shed: with the time after which it should be soon enough.
            DeadlineExceeded: it has passed already: no replica can meet it.
        """
        if patience_seconds <= 0:
            raise DeadlineExceeded("the deadline has passed before the work was queued")
        # What runs at once is not refused, but tried, and the rate learnt, whatever was thought of it before. What runs already may be
        # for callers who have left, and half done: nothing here knows.
        if self._begins_at_once(priority):
            return
        wait = self.outlook.latest(self.expect(tokens, priority), priority)
        if wait > patience_seconds:
            late = f"behind what is queued and running this may take {wait:.2f} s, and the deadline is in {patience_seconds:.2f} s"
            raise self._shed(late, Shortage.DEADLINE, _bounded(wait - patience_seconds))

    def check_alone(self, tokens: int, patience_seconds: float) -> None:
        """Refuse what even alone would take far longer than its caller waits: also where it would begin at once.

        Args:
            tokens: of work that takes many batches one after the other, after the first of them, which has shown a rate.
            patience_seconds: until its caller's deadline.

        Raises:
            Shed: no waiting helps.
        """
        alone = self.outlook.seconds(tokens)
        if 0 < FAR * patience_seconds < alone:
            late = f"alone this may take {alone:.2f} s, and the deadline is in {patience_seconds:.2f} s"
            raise Shed(f"{late}; allow more time, or ask for less", Shortage.DEADLINE)

    def expect(self, tokens: int, priority: Priority = "interactive") -> Expected:
        """What lies before a request of so many tokens."""
        return self.outlook.expect(self.tokens.held - (0 if priority == "bulk" else self.bulk.held), tokens)

    def hold_output(self, size: int, field: str, remedy: str) -> Permit:
        """A permit for the bytes of a request's results, before they are computed.

        Args:
            size: of the answer.
            field: of the request, that asks for most of them.
            remedy: what could be asked for instead now, as a clause; may be empty.

        Raises:
            Shed: other callers' results take too much.
        """
        if size > self.room:
            used = (
                f"{field}: the answer would have {size} bytes; {self.outputs.held} of {self.outputs.limit} are in use"
            )
            # How fast others read their answers is not known; a moment later is as good a guess as any.
            raise self._shed(
                used + remedy, Shortage.OUTPUT_BYTES, _bounded(max(self.backlog_seconds, FIRST_RETRY_SECONDS))
            )
        return self.outputs.take(size)

    def _retry_seconds(self, tokens: int) -> float:
        """Until half the queue is worked off: sooner, all who were refused would meet before a full one; later, it could run dry."""
        if not self.outlook.known:
            return FIRST_RETRY_SECONDS
        return _bounded(self.outlook.seconds(self.tokens.held + tokens - self.tokens.limit / 2))

    @staticmethod
    def _shed(problem: str, shortage: Shortage, retry_seconds: float) -> Shed:
        return Shed(f"{problem}; wait, or ask another replica", shortage, retry_seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, SHORTEST_RETRY_SECONDS), LONGEST_RETRY_SECONDS)
