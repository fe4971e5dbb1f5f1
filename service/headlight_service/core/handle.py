"""Handle of a request under way: its future, its cancellation and its end."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headlight.errors import HeadlightError
from headlight.runtime.tokenization.tokenizer import SHORT_CHARACTERS
from headlight.spec import Priority
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.admission.rate_limit import CHARACTERS_PER_TOKENIZED, Bucket
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import reason_of
from headlight_service.core.admission.waiting_list import Smaller
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.requests.request import Request
from headlight_service.core.timers import Timer
from headlight_service.core.tokenization import TokenizationJob
from headlight_service.core.tokenizer_threads import TokenizerThreads

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

T = TypeVar("T")
WhenGone = Callable[[Callable[[], object]], None]  # registers a callback for a disconnect
_TAKEN: Future[Any] = Future()  # replaces a future whose result is taken: errors refer to frames


class SharedResources(Protocol):
    """Resources that all requests share. `Pipeline` implements it.

    Attributes:
        models: the served models.
        tokenizers: threads for long requests.
    """

    models: Models
    tokenizers: TokenizerThreads

    def bucket_of(self, client: str) -> Bucket | None:
        """Return the token bucket of a client; None: there are no quotas."""


class Handle(Generic[T]):
    """A request under way. Called from any thread.

    Attributes:
        request: the request as submitted.
        future: completed with the answer or with an error.
        cancelled: whether the caller no longer waits for the answer.
    """

    def __init__(
        self, shared: SharedResources, request: Request, trace: RequestTrace | None
    ) -> None:
        """Prepare the handle; `start` begins the work."""
        self.request = request
        self.future: Future[T] = Future()
        self.cancelled = False
        self._shared = shared
        self._trace = trace
        self._job: TokenizationJob
        self._model: ServedModel  # set by _admit
        self._budget: RequestBudget
        self._admitted = False
        self._arrived_ns = time.monotonic_ns()
        self._lock = threading.Lock()
        self._over = False  # whether the end is claimed
        self._tokenizer_threads = 0  # that run a step of it
        self._tokenizing_as: Priority = request.priority
        self._late: Timer | None = None  # while the request waits for room

    def result(self) -> T:
        """Wait for the answer, and take it. Call it once.

        Raises:
            HeadlightError: an error of the pipeline's steps.
            CancelledError: the request was cancelled.
        """
        try:
            return self.future.result()
        finally:
            self.future = _TAKEN

    def cancel(self, *, by_caller: bool = True) -> None:
        """Cancel the request: the caller no longer waits for the answer.

        Args:
            by_caller: count the cancellation, at the stage that the request had reached.
        """
        if not self._claim_end():
            return
        self.cancelled = True
        stage = self._withdraw()
        if by_caller:
            self.count_cancelled(stage)
        self.future.cancel()
        self.close()

    def count_cancelled(self, stage: str) -> None:
        """Count a client that disconnected at a stage."""
        if self._admitted:
            self._model.metrics.cancelled[stage].inc()

    def close(self, error: BaseException | None = None, keep_answer_bytes: int = 0) -> int:
        """Release the request's resources. Called once its answer is sent, or cannot be sent.

        Args:
            error: counted as the reason why there is no answer.
            keep_answer_bytes: bytes of the answer to hold until `release`.

        Returns:
            The number of bytes that are kept.
        """
        if not self._admitted:
            return 0
        if self._late is not None:
            self._late.cancel()
        if isinstance(error, Exception):
            self._model.metrics.rejected[reason_of(error)].inc()
        with self._lock:
            # A tokenizer thread still uses counted resources; it closes the request when done.
            if self._tokenizer_threads and self.cancelled:
                return 0
        return self._budget.close(error, keep_answer_bytes)

    def release(self, answer_bytes: int) -> None:
        """Give back bytes that `close` kept."""
        self._budget.release(answer_bytes)

    @property
    def answer_bytes(self) -> int:
        """Bytes of the answer that are held."""
        return self._budget.answer_bytes

    def start(self, when_gone: WhenGone | None = None) -> Self:
        """Run the steps that need no wait; `result` raises their errors.

        Args:
            when_gone: called with `cancel` before any step, because this thread may compute for
                long.
        """
        if when_gone is not None:
            when_gone(self.cancel)
        self._run(self._admit)
        return self

    # The methods below implement the steps.

    def _admit(self) -> None:
        """Find the model, and take the bytes of the request."""
        request = self.request
        bucket = self._shared.bucket_of(request.client)
        self._model = model = self._shared.models.bind(request.model)
        self._budget = RequestBudget(
            model.admission, model.estimate, request.priority, bucket, model.release
        )
        with self._lock:
            self._admitted = not self._over
        if not self._admitted:  # the client disconnected before the first step
            self._budget.close()
            raise CancelledError
        self._budget.take_request(request.held_bytes)

    def _begin_tokenizing(self, job: TokenizationJob) -> None:
        """Charge for tokenising. Then: `_tokenize`.

        It runs on this thread if the inputs are short: another thread costs 100 µs or more.
        """
        self._job = job
        # Charged before it keeps a thread busy.
        self._budget.charge_tokenizing(job.size / CHARACTERS_PER_TOKENIZED)
        if self._trace is not None:
            self._trace.stage("tokenize")
        if job.size <= SHORT_CHARACTERS:
            self._tokenize()
        else:
            self._tokenize_later(self.request.priority)

    def _tokenize_later(self, priority: Priority) -> None:
        """Run `_tokenize` on a thread of the tokenizer."""
        self._tokenizing_as = priority
        self._shared.tokenizers.submit(self._tokenize_on_thread, priority)

    def _tokenize(self) -> None:
        """Tokenise the inputs. Then: the subclass's next step."""
        raise NotImplementedError

    def _tokenize_on_thread(self) -> None:
        with self._lock:
            if self._over:
                return
            self._tokenizer_threads += 1
        self._run(self._tokenize)
        with self._lock:
            self._tokenizer_threads -= 1
        if self.cancelled:
            self.close()

    def _withdraw(self) -> str:
        """Withdraw the request from the step that it waits in, and return the stage."""
        self._shared.tokenizers.withdraw(self._tokenize_on_thread, self._tokenizing_as)
        return "tokenize"

    def _run(self, step: Callable[[], None]) -> None:
        """Run steps on this thread. Their error becomes the request's."""
        try:
            step()
        except CancelledError:
            self.cancel(by_caller=False)
            self.close()
        except Exception as error:
            self._fail(error)

    def _take_room(
        self,
        then: Callable[[], None],
        answer_bytes: int,
        tokens: int = 0,
        *,
        begun: bool = False,
        smaller: Smaller | None = None,
    ) -> None:
        """Take answer bytes and queue tokens. Then: `then`.

        A request that waits, or that has begun, takes both once there is room. It goes on from
        there on the timers' thread.

        Args:
            then: the next step.
            answer_bytes: bytes of the answer; the model's admission limits their sum.
            tokens: tokens to be queued.
            begun: whether it is the next part of a request that has begun.
            smaller: see `Admission.take_output`.
        """
        request, budget, timers = self.request, self._budget, self._model.scheduler.timers
        # Only its data can make an answer too large forever, not the bytes besides the data.
        answer_bytes = min(answer_bytes, largest_output(self._model.admission.outputs.limit))
        if not (request.waits or begun):
            budget.take_answer(answer_bytes, smaller)
            if tokens:
                budget.take_tokens(tokens, request.deadline)
            then()
            return
        go_on = functools.partial(self._run, functools.partial(self._go_on, then))
        if budget.await_room(
            tokens,
            answer_bytes,
            lambda: timers.call_at(0.0, go_on),  # this thread holds the queue's lock
            begun=begun,
            smaller=smaller,
        ):
            then()
            return
        if self._trace is not None:
            self._trace.stage("queue")
        if request.deadline < math.inf:
            late = functools.partial(self._run, budget.stop_waiting)
            self._late = timers.call_at(request.deadline, late)

    def _go_on(self, then: Callable[[], None]) -> None:
        if self._late is not None:
            self._late.cancel()
        then()

    def _time_left(self) -> float:
        """Return the seconds that the queue may take; infinity if the request waits for room."""
        request = self.request
        return math.inf if request.waits else request.deadline - time.monotonic()

    def _finish(self, answer: T) -> None:
        if self._trace is not None:
            self._trace.stage("reply")
        if not self._claim_end():
            return
        try:
            self._count(answer)
        finally:
            self.future.set_result(answer)

    def _count(self, answer: T) -> None:
        """Count an answer that the caller still waits for."""

    def _fail(self, error: Exception) -> None:
        if not self._claim_end():
            return
        if isinstance(error, HeadlightError):
            error = error.with_traceback(None)  # its frames hold the request's data
        try:
            self.close(error)
        finally:
            self.future.set_exception(error)

    def _claim_end(self) -> bool:
        """Claim the right to end the request; return True for the first caller only."""
        with self._lock:
            over, self._over = self._over, True
        return not over
