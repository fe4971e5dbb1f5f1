"""Admission control of the process: limits on request bytes, queued tokens and answer bytes.

Request bytes are taken as they arrive, or before tokenising. Answer bytes and tokens are taken
before queueing.
`headlight_service.core.admission.request_budget` holds the amounts that one request has taken.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from headlight.errors import DeadlineExceeded, HeadlightError, Reason
from headlight.spec import Priority
from headlight_service.core.admission.estimates import Expected, WaitEstimate
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.admission.waiting_list import (
    Claim,
    Fitting,
    Lack,
    Smaller,
    WaitingList,
)

SHORTEST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 30.0
FIRST_RETRY_SECONDS = 1.0  # before any batch has given a rate
# Work in many batches is refused at once only if alone it would take over twice the time left,
# because rates are estimates.
ALONE_FACTOR = 2.0
# 1/8 is kept of the answer bytes for small answers, of the request bytes for small requests, and of
# the queue for interactive requests.
RESERVE = 8
SMALL_ANSWER_BYTES, SMALL_REQUEST_BYTES = 1 << 20, 64 << 10


@dataclasses.dataclass(slots=True, eq=False)
class Pool:
    """A limited amount of bytes or tokens.

    Attributes:
        limit: the whole amount.
        whole: the pool that this one is part of; held amounts count for both.
        held: the amount in use.
    """

    limit: int
    whole: Pool | None = None
    held: int = 0

    @property
    def free(self) -> int:
        """The amount that can still be taken."""
        free = self.limit - self.held
        return free if self.whole is None else min(free, self.whole.free)

    def take(self, amount: int) -> None:
        """Add an amount to the held one; a negative amount is given back."""
        self.held += amount
        if self.whole is not None:
            self.whole.held += amount


def largest_output(limit: int) -> int:
    """Return the largest answer that is allowed if all results may have `limit` bytes.

    The rest is reserved for small answers. Otherwise a few slow readers of large answers would
    have every request refused.
    """
    return max(limit - limit // RESERVE, min(limit, SMALL_ANSWER_BYTES))


def outputs_for(answer: int) -> int:
    """Return the limit on all results that allows an answer of so many bytes."""
    return -(-answer * RESERVE // (RESERVE - 1))


class Admission:
    """The pools of all models. Every method is called with `lock` held, unless it takes it.

    Attributes:
        lock: the queue's lock, reentrant.
        requests: bytes of the messages in progress.
        arriving: the part of them that belongs to messages which are not complete.
        tokens: tokens queued or running.
        bulk: the part of them that belongs to bulk.
        outputs: bytes of results, computed or about to be, and of answers not yet sent.
        estimates: the queued work of each model, and its rate.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        max_request_bytes: int,
        max_output_bytes: int,
        max_bulk_tokens: int | None = None,
        estimates: Sequence[WaitEstimate] = (),
        begins_at_once: Callable[[Priority], bool] | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Start with nothing admitted.

        Args:
            max_tokens: tokens queued or running at once.
            max_request_bytes: bytes of all requests at once.
            max_output_bytes: bytes of all results at once.
            max_bulk_tokens: the part of `max_tokens` that bulk may have; None: all.
            estimates: see the attribute.
            begins_at_once: returns whether a request that came now would not wait in the queue;
                None: it would always wait.
            lock: see the attribute.
        """
        self.lock = lock or threading.RLock()
        self.requests, self.tokens = Pool(max_request_bytes), Pool(max_tokens)
        self.arriving = Pool(max_request_bytes // 2, self.requests)
        self.outputs = Pool(max_output_bytes)
        self.bulk = Pool(max_tokens if max_bulk_tokens is None else max_bulk_tokens, self.tokens)
        self._pools: dict[Priority, Pool] = {"interactive": self.tokens, "bulk": self.bulk}
        self.estimates = [*estimates]
        self._begins_at_once = begins_at_once
        self._waiting = WaitingList()

    def resize(self, *, tokens: int, bulk_tokens: int, output_bytes: int, largest: int = 0) -> None:
        """Change limits that depend on the models. Takes the lock.

        Half of the queue is reserved for the models, by their weights, and so is half of bulk's
        part. The rest is for all. Less is reserved if the largest request would not fit otherwise.

        Args:
            tokens, bulk_tokens: see `__init__`; no less than `largest`.
            output_bytes: bytes of all results at once.
            largest: tokens of the largest request of any model.
        """
        with self.lock:
            self.tokens.limit, self.bulk.limit = tokens, bulk_tokens
            self.outputs.limit = output_bytes
            self._waiting.lower_answers(largest_output(output_bytes))
            weights = sum([each.weight for each in self.estimates])
            for part, pool in self._pools.items():
                reserved = min(pool.limit // 2, pool.limit - largest)
                for each in self.estimates:
                    each.reserved[part] = int(reserved * each.weight / weights)
            self._admit_waiting()

    def seconds_before(self, priority: Priority) -> float:
        """Return the seconds of all admitted work that goes before a new request of a priority.

        It is the sum over the models, each at its own rate; 0 before any batch has given a rate.
        """
        return sum([each.seconds_before(priority) for each in self.estimates])

    def _wait(self, estimate: WaitEstimate, seconds: float, priority: Priority) -> float:
        """Return the seconds of admitted work that a new request of a model waits for.

        Of other models, it is what their fair shares allow until the request is done, and one batch
        more. Bulk waits for all that is interactive.

        Args:
            estimate: of its model.
            seconds: the request's own work.
            priority: the request's.
        """
        before = estimate.seconds_before(priority)
        share = (before + seconds) / estimate.weight
        for other in self.estimates:
            if other is not estimate:
                first = other.seconds_before("interactive") if priority == "bulk" else 0.0
                beside = other.seconds_before(priority) - first
                before += first + min(beside, share * other.weight + other.recent_batch_seconds)
        return before

    @property
    def room(self) -> int:
        """Largest answer, in bytes, that would be admitted now."""
        free = max(0, self.outputs.limit - self.outputs.held)  # the limit may have fallen
        return max(free - self.outputs.limit // RESERVE, min(free, SMALL_ANSWER_BYTES))

    def take_request(self, size: int) -> None:
        """Take the bytes of a request, before it is tokenised. Raises Shed: too many are held."""
        self._take_bytes(self.requests, size, size)

    def take_arriving(self, size: int, arrived: int, others: int) -> None:
        """Take bytes of a message that arrives. Takes the lock.

        A client may have one message. With a further large one it may have as many bytes as are
        free then, with a further small one three quarters of all: a client that never completes its
        messages leaves room for all others.

        Args:
            size: bytes that have come.
            arrived: bytes of the message that came before.
            others: bytes of the client's other messages that arrive.

        Raises:
            Shed: too many are held.
        """
        with self.lock:
            pool, whole = self.arriving, arrived + size
            small = whole <= SMALL_REQUEST_BYTES
            share = pool.limit - pool.limit // 4 if small else pool.free - size
            if others and others + whole > share:
                raise Shed(
                    Reason.REQUEST_BYTES_OF_CLIENT,
                    Shortage.REQUEST_BYTES,
                    self._retry_seconds(),
                    size=others + whole,
                )
            # A lone message may be larger than this part of the bytes.
            lone = pool.held == arrived
            self._take_bytes(self.requests if lone else pool, size, whole)
            if lone:
                pool.held += size

    def give_arriving(self, size: int) -> None:
        """Give bytes of a message back. Takes the lock."""
        with self.lock:
            self.arriving.take(-size)

    def _take_bytes(self, pool: Pool, size: int, whole: int) -> None:
        """Take bytes of a message of `whole` bytes so far. A large one leaves some to others."""
        held = pool.held - (whole - size)  # by others
        reserve = pool.limit // RESERVE if held and whole > SMALL_REQUEST_BYTES else 0
        if size > pool.free - reserve:
            raise Shed(
                Reason.REQUEST_BYTES,
                Shortage.REQUEST_BYTES,
                self._retry_seconds(),
                held=held,
                limit=pool.limit,
                size=whole,
            )
        pool.take(size)

    def take_tokens(
        self,
        estimate: WaitEstimate,
        tokens: int,
        priority: Priority,
        held_as: Priority | None = None,
    ) -> None:
        """Take the tokens of a request that does not wait, before it is queued.

        Args:
            estimate: of the request's model.
            tokens: tokens of the request.
            priority: the request's.
            held_as: the priority whose part of the queue they take; None: the same.

        Raises:
            Shed: the queue is full, or requests of the same or a higher priority wait for it.
        """
        part = held_as or priority
        blocked = self._waiting.count and self._waiting.blocks(
            estimate, priority, may_overtake=tokens <= estimate.unused(part)
        )
        if blocked or tokens > self._free(estimate, part):
            raise self._full(estimate, tokens, part)
        self._pools[part].take(tokens)
        estimate.queued[part] += tokens

    def await_room(self, claim: Claim) -> bool:
        """Take the tokens and answer bytes of a request now, and return True.

        Else it takes them once there is room for both, in the order of the waiting list.
        """
        if not claim.tokens and claim.answer_bytes <= self.room:  # it needs no queue
            self._take(claim)
            return True
        self._waiting.add(claim)
        return self._admit_waiting(claim)

    def stop_waiting(self, claim: Claim) -> None:
        """Let a request wait no longer."""
        self._waiting.remove(claim)
        self._admit_waiting()

    def refused_claim(self, claim: Claim) -> HeadlightError:
        """Return the error of a request that has waited until its deadline."""
        if claim.begun:  # it is never shed
            return DeadlineExceeded(Reason.EXPIRED_IN_PART)
        if claim.answer_bytes > self.room:
            return self._no_room(claim.answer_bytes, claim.smaller)
        return self._full(claim.estimate, claim.tokens, claim.held_as or claim.priority)

    def give_tokens(self, estimate: WaitEstimate, tokens: int, priority: Priority) -> None:
        """Give tokens back, and admit requests that wait."""
        self._pools[priority].take(-tokens)
        estimate.queued[priority] -= tokens
        if self._waiting.count:
            self._admit_waiting()

    def give_output(self, size: int) -> None:
        """Give bytes of answers back, and admit requests that wait."""
        self.outputs.held -= size
        if self._waiting.count:
            self._admit_waiting()

    def _admit_waiting(self, new: Claim | None = None) -> bool:
        """Admit all that fit, and return whether `new` is among them; it is not called back."""
        while self._waiting.count and (first := self._waiting.next(self._lacks)) is not None:
            self._waiting.remove(first)
            self._take(first)
            if first is new:
                return True
            first.admitted(first.answer_bytes)
        return False

    def _lacks(self, claim: Claim, may_take_shared: bool) -> Lack | None:
        """Return what a request has no room for; None: it fits."""
        part, estimate = claim.held_as or claim.priority, claim.estimate
        within = claim.tokens <= estimate.unused(part)
        if not (within or may_take_shared) or claim.tokens > self._free(estimate, part):
            return "tokens"
        return None if claim.answer_bytes <= self.room else "answer"

    def _free(self, estimate: WaitEstimate, part: Priority) -> int:
        """Return the tokens that a model may take of a part of the queue: all but others' own."""
        free = self._left(estimate, "interactive")  # of the whole queue
        return free if part == "interactive" else min(free, self._left(estimate, part))

    def _left(self, estimate: WaitEstimate, part: Priority) -> int:
        pool = self._pools[part]
        others = sum([each.unused(part) for each in self.estimates if each is not estimate])
        return pool.limit - pool.held - others

    def _take(self, claim: Claim) -> None:
        held_as = claim.held_as or claim.priority
        self._pools[held_as].take(claim.tokens)
        claim.estimate.queued[held_as] += claim.tokens
        self.outputs.take(claim.answer_bytes)

    def _full(self, estimate: WaitEstimate, tokens: int, priority: Priority) -> Shed:
        """Return the error of a request that the queue has no room for."""
        pool = self._pools[priority]
        # Either may be short: the queue, or bulk's part of it.
        if pool is self.bulk and tokens > pool.limit - pool.held:
            full, reason = self.bulk, Reason.QUEUE_FULL_FOR_BULK
        else:
            full, reason = self.tokens, Reason.QUEUE_FULL
        held, limit, free = full.held, full.limit, self._free(estimate, priority)
        if tokens <= free:
            reason = Reason.OTHERS_WAIT
        elif tokens <= pool.free:
            reason, held = Reason.QUEUE_FULL_FOR_MODEL, estimate.held(priority)
            limit = held + max(0, free)
        return Shed(
            reason,
            Shortage.QUEUE_TOKENS,
            self._retry_seconds(estimate.seconds(tokens)),
            held=held,
            limit=limit,
            tokens=tokens,
        )

    def take_output(self, size: int, smaller: Smaller | None = None) -> None:
        """Take the bytes of an answer, before it is computed.

        Args:
            size: bytes of the answer.
            smaller: called with the bytes that there is room for. It returns the field that asks
                for most, and a smaller choice. None: the field is `inputs`.

        Raises:
            Shed: other callers' results take too much.
        """
        if size > self.room:
            raise self._no_room(size, smaller)
        self.outputs.take(size)

    def _no_room(self, size: int, smaller: Smaller | None) -> Shed:
        """Return the error of an answer that there is no room for."""
        fits: Fitting = ("inputs", {"fits": ""})
        field, args = fits if smaller is None else smaller(self.room)
        # A guess, because the rate at which the clients read is unknown.
        seconds = _bounded(max(self.seconds_before("bulk"), FIRST_RETRY_SECONDS))
        return Shed(
            Reason.ANSWERS_HELD,
            Shortage.OUTPUT_BYTES,
            seconds,
            field,
            size=size,
            held=self.outputs.held,
            limit=self.outputs.limit,
            **args,
        )

    def check_wait(
        self,
        estimate: WaitEstimate,
        tokens: int,
        remaining_seconds: float,
        priority: Priority,
    ) -> Expected | None:
        """Refuse a request that the queue would not reach in time.

        It is refused if w e + o exceeds the time left: w is the work before it in seconds, of its
        own model and, by their shares, of others; o its own; e the learnt factor of `WaitEstimate`,
        from 1 to 3. Without work before it, it is never refused.

        Args:
            estimate: of the request's model.
            tokens: tokens of the request; 0 if they are not known yet.
            remaining_seconds: seconds until the caller's deadline.
            priority: the request's; interactive does not wait for bulk.

        Returns:
            The wait-time estimate that it is admitted on; None: it begins at once.

        Raises:
            Shed: with the seconds after which a retry should be in time.
            DeadlineExceeded: the deadline has passed; no replica can meet it.
        """
        if remaining_seconds <= 0:
            raise DeadlineExceeded(Reason.EXPIRED_BEFORE_QUEUE)
        # Work that begins at once is tried despite any estimate, so that the rate is learnt.
        if self._begins_at_once is not None and self._begins_at_once(priority):
            return None
        seconds = estimate.seconds(tokens)
        expected = Expected(self._wait(estimate, seconds, priority), seconds, remaining_seconds)
        wait = estimate.latest(expected, priority)
        if wait > remaining_seconds:
            raise Shed(
                Reason.WAIT_BEYOND_DEADLINE,
                Shortage.DEADLINE,
                _bounded(wait - remaining_seconds),
                wait=f"{wait:.2f}",
                left=f"{remaining_seconds:.2f}",
            )
        return expected

    def check_alone(self, estimate: WaitEstimate, tokens: int, remaining_seconds: float) -> None:
        """Refuse work that would far outlast its deadline even alone.

        Args:
            estimate: of its model.
            tokens: tokens of work in many batches, of which the first has given a rate.
            remaining_seconds: seconds until the caller's deadline.

        Raises:
            Shed: waiting cannot help.
        """
        alone = estimate.seconds(tokens)
        if 0 < ALONE_FACTOR * remaining_seconds < alone:
            raise Shed(
                Reason.ALONE_BEYOND_DEADLINE,
                Shortage.DEADLINE,
                wait=f"{alone:.2f}",
                left=f"{remaining_seconds:.2f}",
            )

    def _retry_seconds(self, seconds: float = 0.0) -> float:
        """Return the seconds until half the queue is drained, after `seconds` of new work.

        After a shorter delay, all refused clients would meet a full queue again. After a longer
        one, the queue could run empty.
        """
        if not any(each.seconds(1) for each in self.estimates):  # no batch has given a rate
            return FIRST_RETRY_SECONDS
        held, limit = self.tokens.held, self.tokens.limit
        queued = sum([each.seconds(sum(each.queued.values())) for each in self.estimates])
        return _bounded(seconds + queued * (1 - limit / 2 / held) if held else seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, SHORTEST_RETRY_SECONDS), LONGEST_RETRY_SECONDS)
