"""Budget of one request: its bytes, its tokens, and its part of the client's quota."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

from headlight.errors import DeadlineExceeded
from headlight.spec import Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Expected, WaitEstimate
from headlight_service.core.admission.rate_limit import TOKENIZED_PER_COMPUTED, Bucket
from headlight_service.core.admission.waiting_list import Claim, Smaller

# The next part of a request that has begun waits behind interactive requests: it has many parts.
# The slices of a request for vectors are all queued so.
CONTINUED_AS: Priority = "bulk"


class RequestBudget:
    """All limited resources that a request takes, given back on close. Called from any thread.

    Taking more after `close` raises CancelledError: the request was cancelled meanwhile.

    Attributes:
        bucket: the client's token bucket; None: it has no quota.
        answer_bytes: bytes of the answer that are held.
    """

    __slots__ = (
        "_admission",
        "_charged",
        "_closed",
        "_committed",
        "_computing",
        "_done",
        "_early",
        "_ended",
        "_estimate",
        "_expected",
        "_priority",
        "_queued_as",
        "_queued_at",
        "_request_bytes",
        "_tokenizing",
        "_tokens",
        "_waiting",
        "_work",
        "answer_bytes",
        "bucket",
    )

    def __init__(
        self,
        admission: Admission,
        estimate: WaitEstimate,
        priority: Priority,
        bucket: Bucket | None = None,
        ended: Callable[[], object] | None = None,
    ) -> None:
        """Start with nothing taken.

        Args:
            admission: the process's.
            estimate: of the request's model.
            priority: the request's.
            bucket: see the attribute.
            ended: called once, by `close`, with the lock held; see `ServedModel.release`.
        """
        self._admission = admission
        self._estimate = estimate
        self._ended = ended
        self._priority: Priority = priority
        self._queued_as: Priority = priority  # of the tokens that are queued now
        self._request_bytes = self.answer_bytes = self._tokens = self._computing = 0
        self._tokenizing = self._charged = 0.0  # prices in tokens: of tokenising; of the whole work
        self._expected: Expected | None = None  # wait-time estimate of the queued tokens
        self._queued_at = 0.0
        self._waiting: Claim | None = None
        self._closed = False
        self._early = 0.0  # estimate of its tokens, before it was tokenised
        self.bucket = bucket
        self._work = 0  # estimate of the tokens of all slices; 0: it has one
        self._committed = 0  # tokens of slices that are not queued yet
        self._done = 0  # tokens computed; they stay charged in any case

    @property
    def alone(self) -> bool:
        """Whether no other request is under way."""
        return self._admission.requests.held == self._request_bytes

    def take_request(self, size: int) -> None:
        """Take the bytes of the request. Raises Shed."""
        with self._admission.lock:
            if self._closed:
                raise CancelledError
            self._admission.take_request(size)
            self._request_bytes = size

    def refuse_early(
        self, tokens: float, remaining_seconds: float, *, computes: bool = True
    ) -> None:
        """Refuse a request of about so many tokens before it is tokenised.

        Args:
            tokens: an estimate; see `Bucket.check_early`.
            remaining_seconds: seconds until the deadline.
            computes: whether the request will be queued. If not, the bucket only must not owe
                tokens.

        Raises:
            Shed, DeadlineExceeded: see `Admission.check_wait` and `Bucket.check_early`.
        """
        if self.bucket is not None:
            if computes:
                self._early = tokens
                self.bucket.check_early(tokens)
            else:
                self.bucket.check(0)
        if computes:
            with self._admission.lock:
                self._admission.check_wait(
                    self._estimate, int(tokens), remaining_seconds, self._priority
                )

    def charge_tokenizing(self, tokens: float) -> None:
        """Charge for tokenising so many tokens in all: first an estimate, later the count."""
        price = tokens / TOKENIZED_PER_COMPUTED
        if self.bucket is not None and price > self._tokenizing:
            self.bucket.spend(price - self._tokenizing)
            self._tokenizing = price

    def charge(self, tokens: int) -> None:
        """Charge for tokens to be computed. Tokenising may have cost more. Raises Shed."""
        if self.bucket is not None:
            charged = max(tokens, self._tokenizing)
            self.bucket.charge(charged, self._tokenizing, self._early)
            self._charged = charged

    def be_sliced(self, work: int) -> None:
        """Have slices of about so many tokens: those that are queued now count as bulk's."""
        self._queued_as, self._work = CONTINUED_AS, work

    def computed_slice(self, tokens: int) -> None:
        """Count computed tokens of a slice. The next slice has the same part of the queue."""
        with self._admission.lock:
            self._done += tokens
            if not self._closed:
                self._commit()

    def settle(self, tokens: int) -> None:
        """Replace the estimate that was charged by the tokens of all slices."""
        self._done = tokens
        if self.bucket is not None:
            price = max(tokens, self._tokenizing)
            self.bucket.spend(price - self._charged)
            self._charged = price

    def take_answer(self, size: int, smaller: Smaller | None = None) -> None:
        """Take the bytes of the answer. Raises Shed as `Admission.take_output` does."""
        with self._admission.lock:
            if self._closed:
                raise CancelledError
            self._admission.take_output(size, smaller)
            self.answer_bytes += size

    def give_back_answer(self, size: int) -> None:
        """Give back bytes of results that are no longer held."""
        with self._admission.lock:
            if not self._closed:
                self.answer_bytes -= size
                self._admission.give_output(size)

    def take_tokens(self, tokens: int, deadline: float) -> None:
        """Take the tokens that are queued first. Waves use `await_room`.

        Raises:
            Shed, DeadlineExceeded: see `Admission.take_tokens` and `Admission.check_wait`.
        """
        admission = self._admission
        self._queued_at = now = time.monotonic()
        with admission.lock:
            if self._closed:
                raise CancelledError
            if deadline < math.inf:  # without a deadline, no wait is refused or learnt from
                work = self._work or tokens
                left = deadline - now
                expected = admission.check_wait(self._estimate, work, left, self._queued_as)
                if not self._work:  # that of an estimate would be misleading
                    self._expected = expected
            admission.take_tokens(self._estimate, tokens, self._priority, self._queued_as)
            self._hold(tokens, 0)

    def await_room(
        self,
        tokens: int,
        answer_bytes: int,
        admitted: Callable[[], object],
        *,
        begun: bool = False,
        smaller: Smaller | None = None,
    ) -> bool:
        """Take tokens and answer bytes now, and return True; else once there is room for both.

        Args:
            tokens: tokens that are queued then.
            answer_bytes: bytes of the answer, or 0.
            admitted: called with the lock held, by the thread that made room.
            begun: see `Claim`.
            smaller: see `Admission.take_output`.
        """

        def go_on(answer_bytes: int) -> None:
            self._waiting = None
            self._hold(tokens, answer_bytes)
            admitted()

        priority = CONTINUED_AS if begun else self._priority
        if begun:
            self._queued_as = CONTINUED_AS
        claim = Claim(
            self._estimate,
            tokens,
            answer_bytes,
            priority,
            go_on,
            begun,
            smaller,
            held_as=self._queued_as,
        )
        with self._admission.lock:
            if self._closed:
                raise CancelledError
            taken = self._admission.await_room(claim)
            if taken:
                self._hold(tokens, answer_bytes)
            else:
                self._waiting = claim
            return taken

    def stop_waiting(self) -> None:
        """Stop waiting at the deadline. Raises HeadlightError, unless it waits no longer."""
        with self._admission.lock:
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                error = self._admission.refused_claim(waiting)
                self._admission.stop_waiting(waiting)
                raise error

    def _hold(self, tokens: int, answer_bytes: int) -> None:
        self._tokens = tokens
        self.answer_bytes += answer_bytes
        self._commit()

    def _commit(self) -> None:
        """Count the slices behind those in the queue as work that will come."""
        left = 0 if self._closed else max(0, self._work - self._done - self._tokens)
        self._estimate.committed += left - self._committed
        self._committed = left

    def began(self, tokens: int) -> None:
        """Add tokens that an engine computes. Call it with the lock held."""
        self._computing += tokens

    def ended(self, tokens: int) -> None:
        """Subtract tokens that an engine no longer computes. Call it with the lock held."""
        self._computing -= tokens
        if self._closed and not self._computing:
            self._give_tokens(0)
            self._give_answer()

    def give_back_tokens(self) -> int:
        """Give back the computed tokens, learn how long they waited, and return their number."""
        with self._admission.lock:
            tokens = self._tokens
            if not self._closed:
                self._done += tokens
                self._learn_wait(answered=True)
                self._give_tokens(0)
                self._work = 0
                self._commit()
            return tokens

    def close(self, error: BaseException | None = None, keep_answer_bytes: int = 0) -> int:
        """Give everything back. Amounts that an engine still uses are given back when it is done.

        Args:
            error: the reason why the request failed; the client then pays only for tokenising and
                for computed tokens. None: it succeeded, or the client disconnected.
            keep_answer_bytes: bytes of the answer that `release` gives back.

        Returns:
            The number of bytes that are kept.
        """
        kept = min(keep_answer_bytes, self.answer_bytes)
        with self._admission.lock:
            if self._closed:
                return 0
            self._closed = True
            self._commit()
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                self._admission.stop_waiting(waiting)
            self.answer_bytes -= kept
            self._admission.requests.held -= self._request_bytes
            if self._tokens:  # they were cancelled, or their deadline passed
                self._learn_wait(answered=False)
                self._give_tokens(self._computing)
            if not self._computing:
                self._give_answer()
            if self._ended is not None:
                self._ended()
        failed = isinstance(error, Exception) and not isinstance(error, DeadlineExceeded)
        if self.bucket is not None and self._charged and failed:
            self.bucket.spend(max(self._done, self._tokenizing) - self._charged)
        return kept

    def release(self, answer_bytes: int) -> None:
        """Give back the bytes that `close` kept."""
        with self._admission.lock:
            self._admission.give_output(answer_bytes)

    def _learn_wait(self, *, answered: bool) -> None:
        if self._expected is not None:
            seconds = time.monotonic() - self._queued_at
            self._estimate.waited(self._expected, self._priority, seconds, answered=answered)
            self._expected = None

    def _give_tokens(self, left: int) -> None:
        given, self._tokens = self._tokens - left, left
        self._admission.give_tokens(self._estimate, given, self._queued_as)

    def _give_answer(self) -> None:
        given, self.answer_bytes = self.answer_bytes, 0
        self._admission.give_output(given)
