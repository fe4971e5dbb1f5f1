"""Waits of a request: for a tokenizer's thread, for room, for the scheduler's results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headlight.errors import DeadlineExceeded, HeadlightError, Reason
from headlight.runtime.encode_items import EncodeItem
from headlight.spec import Priority
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.admission.request_budget import CONTINUED_AS
from headlight_service.core.admission.waiting_list import Smaller
from headlight_service.core.handle import Handle
from headlight_service.core.scheduler.pending_requests import PendingRequest
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.core.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from headlight_service.core.admission.answer_window import AnswerWindow


class TokenizerTurn:
    """Turn on a thread of the tokenizer: a long text would keep the caller's thread busy."""

    def __init__(self, handle: Handle[Any], threads: TokenizerThreads, priority: Priority) -> None:
        self._handle, self._threads, self._priority = handle, threads, priority

    def begin(self) -> bool:
        self._threads.submit(self._take, self._priority)
        return False

    def _take(self) -> None:
        late = time.monotonic() >= self._handle.request.deadline
        self._handle.resume(DeadlineExceeded(Reason.EXPIRED_BEFORE_QUEUE) if late else None)

    def withdraw(self) -> str:
        self._threads.withdraw(self._take)
        return "tokenize"

    def expire(self) -> None:
        """Go on waiting: it is refused once its turn has come."""


class WindowRoom:
    """Room in a stream's window for the answer. First come, first served."""

    def __init__(self, handle: Handle[Any], window: AnswerWindow, size: int) -> None:
        self._handle, self._window, self._size = handle, window, size

    def begin(self) -> bool:
        entered = self._window.enter(self._size, self._proceed)
        if entered:
            self._handle.enter_window(self._size)
        return entered

    def _proceed(self) -> None:
        self._handle.enter_window(self._size)
        self._handle.resume()

    def withdraw(self) -> str:
        self._window.withdraw(self._proceed)
        return "queue"

    def expire(self) -> None:
        """Go on waiting: it is refused before it is queued."""


class Room:
    """Room for bytes of the answer and for tokens in the queue; both are taken at once.

    A request that does not wait is refused if there is none.
    """

    def __init__(
        self,
        handle: Handle[Any],
        threads: WorkerThreads,
        answer_bytes: int = 0,
        tokens: int = 0,
        smaller: Smaller | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """Prepare to wait.

        Args:
            handle: the request, admitted.
            threads: run its next step: who gives room holds the queue's lock.
            answer_bytes: bytes of the answer; the model's admission limits their sum.
            tokens: tokens to be queued.
            smaller: see `Admission.take_output`.
            begun: whether they are of the next part of a request that has begun, which always
                waits.
        """
        self._handle, self._threads = handle, threads
        # Only its data can make an answer too large forever, not the bytes besides the data.
        most = largest_output(handle.model.admission.outputs.limit)
        self._answer_bytes, self._tokens = min(answer_bytes, most), tokens
        self._smaller, self._begun = smaller, begun

    def begin(self) -> bool:
        handle, request, budget = self._handle, self._handle.request, self._handle.budget
        assert budget is not None
        if not (request.waits or self._begun):
            budget.take_answer(self._answer_bytes, self._smaller)
            if self._tokens:
                budget.take_tokens(self._tokens, request.deadline)
            return True
        if budget.await_room(
            self._tokens,
            self._answer_bytes,
            lambda: self._threads.put(handle.resume),
            begun=self._begun,
            smaller=self._smaller,
        ):
            return True
        if handle.trace is not None:
            handle.trace.stage("queue")
        if time.monotonic() >= request.deadline:
            budget.stop_waiting()
        return False

    def withdraw(self) -> str:
        return "queue"  # closing the budget ends the wait

    def expire(self) -> None:
        assert self._handle.budget is not None
        try:
            self._handle.budget.stop_waiting()
        except HeadlightError as error:
            self._handle.resume(error)


class Computation:
    """Results of items that the scheduler computes. Their tokens are held.

    It ends when `PendingRequest.tell` calls `Handle.resume`.
    """

    def __init__(
        self, handle: Handle[Any], items: Sequence[EncodeItem], *, in_turns: bool = False
    ) -> None:
        """Prepare to wait.

        Args:
            handle: the request, admitted.
            items: at least one, all of one graph.
            in_turns: whether they are a slice, or the next part of a request that has begun: these
                take turns with those of other clients.
        """
        request, budget = handle.request, handle.budget
        assert budget is not None
        self._handle, self._scheduler = handle, handle.model.scheduler
        self._pending = PendingRequest(
            handle.model.key,
            items,
            request.deadline,
            CONTINUED_AS if in_turns else request.priority,
            budget,
            handle.resume,
            handle.trace,
            flow=request.client if in_turns else "",
        )
        # If there are other requests, an engine's thread runs it with theirs as one batch.
        self._may_compute = handle.may_compute and not in_turns and budget.alone

    def begin(self) -> bool:
        handle = self._handle
        if time.monotonic() >= handle.request.deadline:
            raise DeadlineExceeded(Reason.EXPIRED)
        if handle.trace is not None:
            handle.trace.stage("queue")
        if handle.when_queued is not None:
            handle.when_queued()
        self._scheduler.submit(self._pending, may_compute=self._may_compute)
        return False

    def withdraw(self) -> str:
        return "queue" if self._scheduler.withdraw(self._pending) else "infer"

    def expire(self) -> None:
        self._scheduler.expire(self._pending)
