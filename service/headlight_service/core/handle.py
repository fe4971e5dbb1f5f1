"""A request under way: runs its steps, from wait to wait, on whichever thread ends a wait."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headlight.errors import HeadlightError
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import label_of
from headlight_service.core.requests.request import Request

if TYPE_CHECKING:
    from headlight_service.core.admission.answer_window import AnswerWindow
    from headlight_service.core.models import ServedModel
    from headlight_service.telemetry.request_trace import RequestTrace

T = TypeVar("T")
OnDisconnect = Callable[[Callable[[], object]], None]  # registers a callback for a disconnect
_TAKEN: Future[Any] = Future()  # replaces a future whose result is taken: errors refer to frames


class Wait(Protocol):
    """What a step of a request waits for; see `headlight_service.core.waits`."""

    def begin(self) -> bool:
        """Return True if there is nothing to wait for; else have `Handle.resume` called once.

        Raises:
            HeadlightError: it is refused.
        """

    def withdraw(self) -> str:
        """Wait no longer, and return the stage: one of `metrics.CANCEL_STAGES`.

        It may not have begun yet.
        """

    def expire(self) -> None:
        """The deadline has passed: end the wait if nothing was begun."""


Steps = Generator[Wait, Any, T]


class Handle(Generic[T]):
    """A request under way. Called from any thread.

    Attributes:
        request: the request as submitted.
        trace: its spans; None: it is not traced.
        window: of the stream that carries the request; None: there is none.
        when_queued: called when the request, or its next part, has all room that it needs.
        may_compute: whether the thread that runs its steps may compute, too.
        model: the model that serves it, after `admit`.
        budget: what it holds; None before `admit`.
        stage: what it does while no wait is under way, one of `metrics.CANCEL_STAGES`.
        arrived_ns: when it came, on time.monotonic_ns.
        future: completed with the answer or with an error.
        cancelled: whether the caller no longer waits for the answer.
    """

    model: ServedModel

    def __init__(
        self,
        request: Request,
        trace: RequestTrace | None = None,
        window: AnswerWindow | None = None,
        *,
        may_compute: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> None:
        """Prepare the handle; `start` begins the work."""
        self.request = request
        self.trace, self.window, self.when_queued = trace, window, when_queued
        self.may_compute = may_compute
        self.budget: RequestBudget | None = None
        self.stage = "tokenize"
        self.arrived_ns = time.monotonic_ns()
        self.future: Future[T] = Future()
        self.cancelled = False
        self._steps: Steps[T] | None = None
        self._lock = threading.Lock()
        self._over = False  # whether it is answered, failed or cancelled
        self._running = False  # whether a thread runs a step
        self._waits_for: Wait | None = None
        self._window_bytes = -1  # held at the window; -1: none

    # For the caller.

    def start(self, steps: Steps[T], on_disconnect: OnDisconnect | None = None) -> Self:
        """Run the steps that need no wait; `result` raises their errors.

        Args:
            steps: of the request; see `headlight_service.core.driver`.
            on_disconnect: called with `cancel` before any step, because this thread may compute for
                long.
        """
        self._steps = steps
        if on_disconnect is not None:
            on_disconnect(self.cancel)
        self._advance(None)
        return self

    def result(self) -> T:
        """Wait for the answer, and take it. Call it once.

        Raises:
            HeadlightError: an error of the steps.
            CancelledError: the request was cancelled.
        """
        try:
            if self.request.deadline < math.inf:
                try:
                    self.future.exception(max(0.0, self.request.deadline - time.monotonic()))
                except TimeoutError:
                    self.expire()
            return self.future.result()
        finally:
            self.future = _TAKEN

    def expire(self) -> None:
        """End the request unless an engine computes it: its deadline has passed."""
        wait = self._waits_for
        if wait is not None:
            wait.expire()

    def cancel(self, *, by_caller: bool = True) -> None:
        """Cancel the request: the caller no longer waits for the answer.

        Args:
            by_caller: count the cancellation, at the stage that the request had reached.
        """
        with self._lock:
            if self._over:
                return
            self._over = self.cancelled = True
            wait, self._waits_for = self._waits_for, None
        stage = self.stage if wait is None else wait.withdraw()
        if by_caller:
            self.count_cancelled(stage)
        self.future.cancel()
        self.close()

    def count_cancelled(self, stage: str) -> None:
        """Count a client that disconnected at a stage."""
        if self.budget is not None:
            self.model.metrics.cancelled[stage].inc()

    def close(self, error: BaseException | None = None, keep_answer_bytes: int = 0) -> int:
        """Release what the request holds. Called once its answer is sent, or cannot be sent.

        Args:
            error: counted as the reason why there is no answer.
            keep_answer_bytes: bytes of the answer to hold until `release`.

        Returns:
            The number of bytes that are kept.
        """
        with self._lock:
            if self._running and self.cancelled:  # that thread uses what is counted; it closes
                return 0
            steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
        if self.window is not None:
            self._leave_window()
        if self.budget is None:
            return 0
        if isinstance(error, Exception):
            self.model.metrics.rejected[label_of(error)].inc()
        return self.budget.close(error, keep_answer_bytes)

    def release(self, answer_bytes: int) -> None:
        """Give back bytes that `close` kept."""
        assert self.budget is not None
        self.budget.release(answer_bytes)

    @property
    def answer_bytes(self) -> int:
        """Bytes of the answer that are held."""
        return 0 if self.budget is None else self.budget.answer_bytes

    # For the steps and their waits.

    def admit(self, model: ServedModel, budget: RequestBudget) -> None:
        """Bind the request to its model. Raises CancelledError: the client has disconnected."""
        with self._lock:
            over = self._over
            if not over:
                self.model, self.budget = model, budget
        if over:
            budget.close()
            raise CancelledError

    def reach(self, stage: str) -> None:
        """Note that the request has reached a stage."""
        self.stage = stage
        if self.trace is not None:
            self.trace.stage(stage)

    def resume(self, outcome: Any = None) -> None:
        """Go on after a wait, on this thread.

        Args:
            outcome: what the request has waited for, or the error.
        """
        self.may_compute = False
        self._advance(outcome)

    def enter_window(self, size: int) -> None:
        """Hold so many bytes of the window until the request is closed."""
        with self._lock:
            self._window_bytes = size

    def shrink_window(self, size: int) -> None:
        """Give back a part of what `enter_window` holds."""
        self._leave_window(size)

    def _leave_window(self, size: int | None = None) -> None:
        """Give back bytes of the window; None: all."""
        with self._lock:
            held = self._window_bytes
            left = -1 if size is None else held - size
            if held >= 0:
                self._window_bytes = left
        if self.window is not None and held >= 0:
            self.window.leave(held, max(0, left))

    def _advance(self, outcome: Any) -> None:
        """Run steps on this thread up to the next wait, or the end."""
        while self._take_turn():
            try:
                wait = self._next(outcome)
            except StopIteration as end:
                self._end(end.value, None)
                return
            except CancelledError:
                self._running = False
                self.cancel(by_caller=False)
                self.close()
                return
            except Exception as error:
                self._end(None, error)
                return
            finally:
                outcome = None  # an error would hold this frame, which holds it
            with self._lock:
                self._running = False
                if not self._over:
                    self._waits_for = wait
            try:
                if self._over or not wait.begin():
                    break
            except Exception as error:  # CancelledError, too
                outcome = error
        del outcome
        if self.cancelled:  # while a step ran
            self.close()

    def _take_turn(self) -> bool:
        """Return whether the steps go on: nobody has cancelled them."""
        with self._lock:
            self._waits_for = None
            self._running = not self._over
            return self._running

    def _next(self, outcome: Any) -> Wait:
        """Run the next step, and return what it waits for."""
        steps = self._steps
        assert steps is not None
        try:
            return steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
        finally:
            del outcome  # an error would hold this frame, which holds it

    def _end(self, answer: Any, error: Exception | None) -> None:
        """End the request with its answer or its error, unless it was cancelled meanwhile."""
        if self.trace is not None and error is None:
            self.trace.stage("reply")
        with self._lock:
            self._running = False
            over, self._over = self._over, True
            self._steps = None
        if over:
            self.close()
        elif error is None:
            self.future.set_result(answer)
        else:
            if isinstance(error, HeadlightError):  # frames hold the request's data
                error = error.with_traceback(None)
                error.__context__ = None
            try:
                self.close(error)
            finally:
                self.future.set_exception(error)
