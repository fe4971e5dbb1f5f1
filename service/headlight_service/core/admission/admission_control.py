"""Admission control of one model: request bytes, queued tokens and answer bytes are bounded.

Request bytes are taken before tokenising, tokens before the queue, answer bytes before anything
runs. `headlight_service.core.admission.request_budget` holds what one request has taken.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from headlight.errors import DeadlineExceeded
from headlight.spec import Priority
from headlight_service.core.admission.estimates import Expected, WaitEstimate
from headlight_service.core.admission.shedding import Shed, Shortage

SHORTEST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 30.0
FIRST_RETRY_SECONDS = 1.0  # before any batch has shown a rate
FAR = 2.0  # times the caller's patience: rates are guesses
# One part in so many is kept: of the answer bytes for small answers, of the queue for interactive.
RESERVE = 8
SMALL_ANSWER_BYTES = 1 << 20


@dataclasses.dataclass(slots=True, eq=False)
class Pool:
    """An amount of something that runs out.

    Attributes:
        limit: how much there is.
        whole: of which this is a part: what is given out counts for both.
        held: how much of it is given out.
    """

    limit: int
    whole: Pool | None = None
    held: int = 0

    @property
    def free(self) -> int:
        """How much can still be given out."""
        free = self.limit - self.held
        return free if self.whole is None else min(free, self.whole.free)

    def take(self, amount: int) -> None:
        """Count so much more as given out; less, if negative."""
        self.held += amount
        if self.whole is not None:
            self.whole.held += amount


def largest_output(limit: int) -> int:
    """Return how large an answer may be if all results may have `limit` bytes.

    The rest is kept for small answers. Else a few slow readers of large ones would have everyone
    refused.
    """
    return max(limit - limit // RESERVE, min(limit, SMALL_ANSWER_BYTES))


def outputs_for(answer: int) -> int:
    """Return how many bytes all results need for an answer of so many: see `largest_output`."""
    return -(-answer * RESERVE // (RESERVE - 1))


class Admission:
    """The pools of one model. Every method is called with `lock` held.

    Attributes:
        lock: that of the queue; it can be taken again by the thread that has it.
        requests: bytes of the messages being dealt with.
        tokens: queued or running.
        bulk: those of them that are bulk's.
        outputs: bytes of results computed or about to be, and of answers not yet sent.
        estimate: how long the queue takes.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        max_request_bytes: int,
        max_output_bytes: int,
        max_bulk_tokens: int | None = None,
        estimate: WaitEstimate | None = None,
        begins_at_once: Callable[[Priority], bool] | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Nothing is admitted yet.

        Args:
            max_tokens: tokens that may be queued or running at once.
            max_request_bytes: bytes of all requests at once.
            max_output_bytes: bytes of all results at once.
            max_bulk_tokens: of `max_tokens`, how many bulk may have; None: all.
            estimate: learns from the queue's batches; None: nothing is ever known.
            begins_at_once: whether a request that came now would wait for nothing in the
                queue; None: none would.
            lock: see the attribute.
        """
        self.lock = lock or threading.RLock()
        self.requests, self.tokens = Pool(max_request_bytes), Pool(max_tokens)
        self.outputs = Pool(max_output_bytes)
        self.bulk = Pool(max_tokens if max_bulk_tokens is None else max_bulk_tokens, self.tokens)
        self.estimate = estimate or WaitEstimate(1)
        self._begins_at_once = begins_at_once

    @property
    def backlog_seconds(self) -> float:
        """How long what is admitted will take; 0 before any batch has shown a rate."""
        return self.estimate.seconds(self.tokens.held)

    @property
    def room(self) -> int:
        """How large an answer would be taken now."""
        free = self.outputs.limit - self.outputs.held
        return max(free - self.outputs.limit // RESERVE, min(free, SMALL_ANSWER_BYTES))

    def take_request(self, size: int) -> None:
        """Take the bytes of a request, before it is tokenised. Raises Shed: too many are held."""
        pool = self.requests
        if size > pool.free:
            used = f"requests of {pool.held} bytes are waiting, over {pool.limit} with these {size}"
            raise _shed(used, Shortage.REQUEST_BYTES, self._retry_seconds(0))
        pool.take(size)

    def take_tokens(self, tokens: int, priority: Priority) -> None:
        """Take the tokens of a request, before it is queued. Raises Shed: the queue is full."""
        pool = self.bulk if priority == "bulk" else self.tokens
        if tokens > pool.free:
            # Either may be what is short: the queue, or bulk's part of it.
            of_bulk = pool is self.bulk and tokens > pool.limit - pool.held
            full, of = (pool, " for bulk") if of_bulk else (self.tokens, "")
            used = f"{full.held} of {full.limit} tokens, {tokens} asked for"
            seconds = self._retry_seconds(tokens)
            raise _shed(f"the queue is full{of} ({used})", Shortage.QUEUE_TOKENS, seconds)
        pool.take(tokens)

    def take_output(self, size: int, smaller: Callable[[int], tuple[str, str]] | None = None) -> None:
        """Take the bytes of an answer, before it is computed.

        Args:
            size: of the answer.
            smaller: given how many bytes there is room for, returns the field of the request that
                asks for most of them, and what could be asked for instead, as a clause; or nothing.
                None: its inputs do.

        Raises:
            Shed: other callers' results take too much.
        """
        room = self.room
        if size > room:
            field, remedy = ("inputs", "") if smaller is None else smaller(room)
            used = (
                f"{field}: the answer would have {size} bytes;"
                f" {self.outputs.held} of {self.outputs.limit} are in use{remedy}"
            )
            # How fast others read is not known; a moment later is as good a guess as any.
            seconds = _bounded(max(self.backlog_seconds, FIRST_RETRY_SECONDS))
            raise _shed(used, Shortage.OUTPUT_BYTES, seconds)
        self.outputs.take(size)

    def check_wait(self, tokens: int, patience_seconds: float, priority: Priority) -> Expected | None:
        """Refuse a request that the queue would not come to in time.

        Args:
            tokens: of the request; 0 if they are not known yet.
            patience_seconds: until its caller's deadline.
            priority: its own; interactive does not wait for bulk.

        Returns:
            What it is admitted on; None: it begins at once.

        Raises:
            Shed: with the time after which it should be soon enough.
            DeadlineExceeded: it has passed already: no replica can meet it.
        """
        if patience_seconds <= 0:
            raise DeadlineExceeded("the deadline has passed before the work was queued")
        # What begins at once is tried, and the rate learnt, whatever was estimated before.
        if self._begins_at_once is not None and self._begins_at_once(priority):
            return None
        estimate = self.estimate
        before = self.tokens.held - (0 if priority == "bulk" else self.bulk.held)
        expected = Expected(estimate.seconds(before), estimate.seconds(tokens), patience_seconds)
        wait = estimate.latest(expected, priority)
        if wait > patience_seconds:
            late = (
                f"behind what is queued and running this may take {wait:.2f} s,"
                f" and the deadline is in {patience_seconds:.2f} s"
            )
            raise _shed(late, Shortage.DEADLINE, _bounded(wait - patience_seconds))
        return expected

    def check_alone(self, tokens: int, patience_seconds: float) -> None:
        """Refuse what even alone would take far longer than its caller waits.

        Args:
            tokens: of work in many batches, after the first of them, which has shown a rate.
            patience_seconds: until its caller's deadline.

        Raises:
            Shed: no waiting helps.
        """
        alone = self.estimate.seconds(tokens)
        if 0 < FAR * patience_seconds < alone:
            raise Shed(
                f"alone this may take {alone:.2f} s, and the deadline is in"
                f" {patience_seconds:.2f} s; allow more time, or ask for less",
                Shortage.DEADLINE,
            )

    def _retry_seconds(self, tokens: int) -> float:
        """Until half the queue is worked off.

        Sooner, all who were refused would meet before a full one; later, it could run dry.
        """
        if not self.estimate.seconds(1):  # no batch has shown a rate
            return FIRST_RETRY_SECONDS
        return _bounded(self.estimate.seconds(self.tokens.held + tokens - self.tokens.limit / 2))


def _shed(problem: str, shortage: Shortage, retry_seconds: float) -> Shed:
    return Shed(f"{problem}; wait, or ask another replica", shortage, retry_seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, SHORTEST_RETRY_SECONDS), LONGEST_RETRY_SECONDS)
