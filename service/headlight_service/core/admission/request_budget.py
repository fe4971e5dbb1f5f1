"""What one request holds: bytes, tokens, and a part of its client's quota."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

from headlight.errors import DeadlineExceeded
from headlight.spec import Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Expected
from headlight_service.core.admission.rate_limit import READING, Bucket


class RequestBudget:
    """Everything a request takes of what runs out, given back when it is closed. From any thread.

    What is taken after it was closed raises CancelledError: the request was given up meanwhile.

    Attributes:
        bucket: of the client; None: it has no quota.
        answer_bytes: bytes of the answer that are held.
    """

    __slots__ = (
        "_admission",
        "_charged",
        "_closed",
        "_computing",
        "_done",
        "_expected",
        "_priority",
        "_queued_at",
        "_read",
        "_request_bytes",
        "_tokens",
        "answer_bytes",
        "bucket",
    )

    def __init__(self, admission: Admission, priority: Priority, bucket: Bucket | None = None) -> None:
        self._admission = admission
        self._priority: Priority = priority
        self._request_bytes = self.answer_bytes = self._tokens = self._computing = 0
        self._read = self._charged = 0.0  # tokens: for reading; for the whole work
        self._expected: Expected | None = None  # of the wait for the wave that is queued
        self._queued_at = 0.0
        self._closed = False
        self.bucket = bucket
        self._done = 0  # tokens that were computed: whatever comes next, they are paid

    @property
    def alone(self) -> bool:
        """Whether no other request is under way."""
        return self._admission.requests.held == self._request_bytes

    def receive(self, size: int) -> None:
        """Take the bytes of the request. Raises Shed."""
        with self._admission.lock:
            if self._closed:
                raise CancelledError
            self._admission.take_request(size)
            self._request_bytes = size

    def look_ahead(self, tokens: float, patience_seconds: float, *, computes: bool = True) -> None:
        """Refuse, before it is read, a request of about so many tokens.

        Args:
            tokens: as estimated, of which the client's quota must have half.
            patience_seconds: until the deadline.
            computes: whether it is queued; if not, reading may be owed, but no more while it is.

        Raises:
            Shed, DeadlineExceeded: see `Admission.check_wait` and `Bucket.check`.
        """
        if self.bucket is not None:
            self.bucket.check(tokens / 2 if computes else 0)
        if computes:
            with self._admission.lock:
                self._admission.check_wait(int(tokens), patience_seconds, self._priority)

    def has_read(self, tokens: float) -> None:
        """Charge for reading so many tokens in all: estimated before they keep a thread busy, counted after."""
        price = tokens / READING
        if self.bucket is not None and price > self._read:
            self.bucket.spend(price - self._read)
            self._read = price

    def charge(self, tokens: int) -> None:
        """Charge for tokens to be computed. Reading may have cost more. Raises Shed."""
        if self.bucket is not None:
            charged = max(tokens, self._read)
            self.bucket.charge(charged, self._read)
            self._charged = charged

    def reserve(self, size: int, smaller: Callable[[int], tuple[str, str]] | None = None) -> None:
        """Take the bytes of the answer. Raises Shed as `Admission.take_output`."""
        with self._admission.lock:
            if self._closed:
                raise CancelledError
            self._admission.take_output(size, smaller)
            self.answer_bytes += size

    def queue(self, tokens: int, deadline: float) -> None:
        """Take the tokens of a wave of work. Raises Shed, DeadlineExceeded."""
        admission = self._admission
        self._queued_at = now = time.monotonic()
        with admission.lock:
            if self._closed:
                raise CancelledError
            if deadline < math.inf:  # else there is no wait to be refused, or learnt from
                self._expected = admission.check_wait(tokens, deadline - now, self._priority)
            admission.take_tokens(tokens, self._priority)
            self._tokens = tokens

    def began(self, tokens: int) -> None:
        """Note that an engine has so many of the tokens. With the lock held."""
        self._computing += tokens

    def ended(self, tokens: int) -> None:
        """Note that it no longer has. With the lock held."""
        self._computing -= tokens
        if self._closed and not self._computing:
            self._give_tokens(0)
            self._give_answer()

    def computed(self) -> int:
        """Give back the tokens of a wave, and learn how long it took; returns how many they were."""
        with self._admission.lock:
            tokens = self._tokens
            if not self._closed:
                self._done += tokens
                self._learn_wait(answered=True)
                self._give_tokens(0)
            return tokens

    def close(self, error: BaseException | None = None, keep_answer_bytes: int = 0) -> int:
        """Give everything back; what an engine still works for, when it is done.

        Args:
            error: why the request failed, for which the client does not pay; None: it did not, or
                its caller has left.
            keep_answer_bytes: of the answer, that are given back by `release`.

        Returns:
            How many bytes are kept.
        """
        kept = min(keep_answer_bytes, self.answer_bytes)
        with self._admission.lock:
            if self._closed:
                return 0
            self._closed = True
            self.answer_bytes -= kept
            self._admission.requests.held -= self._request_bytes
            if self._tokens:  # the wave was given up: at its deadline, or by its caller
                self._learn_wait(answered=False)
                self._give_tokens(self._computing)
            if not self._computing:
                self._give_answer()
        failed = isinstance(error, Exception) and not isinstance(error, DeadlineExceeded)
        if self.bucket is not None and self._charged and failed:
            self.bucket.spend(max(self._done, self._read) - self._charged)
        return kept

    def release(self, answer_bytes: int) -> None:
        """Give back what `close` kept."""
        with self._admission.lock:
            self._admission.outputs.held -= answer_bytes

    def _learn_wait(self, *, answered: bool) -> None:
        if self._expected is not None:
            seconds = time.monotonic() - self._queued_at
            estimate = self._admission.estimate
            estimate.waited(self._expected, self._priority, seconds, answered=answered)
            self._expected = None

    def _give_tokens(self, left: int) -> None:
        pool = self._admission.bulk if self._priority == "bulk" else self._admission.tokens
        pool.take(left - self._tokens)
        self._tokens = left

    def _give_answer(self) -> None:
        self._admission.outputs.held -= self.answer_bytes
        self.answer_bytes = 0
