"""Driver: the steps of a request, from its admission to its answer.

A step runs on the thread that ends the wait before it: the caller's, the tokenizer's, the
engine's. A request waits for nothing but its own work, and holds no thread meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Generator, Iterator
from typing import Any

from headlight.errors import renamed
from headlight.results import TokenList
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.plans.plan import Items
from headlight.runtime.tokenization.tokenizer import SHORT_CHARACTERS
from headlight_service.core.admission.rate_limit import (
    CHARACTERS_PER_TOKENIZED,
    TOKENIZED_PER_COMPUTED,
    Bucket,
    Quotas,
)
from headlight_service.core.admission.request_budget import CONTINUED_AS, RequestBudget
from headlight_service.core.handle import Handle, Steps, Wait
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.requests.answer import Answer, Prepared, Timings
from headlight_service.core.scheduler.pending_requests import Computed
from headlight_service.core.slices import Slices
from headlight_service.core.tasks.task import AnswerForm, Task, TokensForm, Work
from headlight_service.core.tokenization import TokenizationJob, tokenized, tokenizing_job
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.core.waits import Computation, Room, TokenizerTurn, WindowRoom
from headlight_service.core.worker_threads import WorkerThreads


@dataclasses.dataclass(frozen=True, slots=True)
class Driver:
    """What all requests share.

    Attributes:
        models: the served models.
        tokenizers: threads for long texts.
        resuming: threads that run the next step of a request that got room.
        quotas: token buckets of the clients; None: no client has a quota.
    """

    models: Models
    tokenizers: TokenizerThreads
    resuming: WorkerThreads
    quotas: Quotas | None = None

    def answer(self, handle: Handle[Answer], task: Task, form: AnswerForm) -> Steps[Answer]:
        """Answer one request.

        Args:
            handle: the request.
            task: what is particular to its kind.
            form: sizes the answer.
        """
        request = handle.request
        with renamed(task.names(request)):
            model, budget = self._admit(handle)
            selection = model.select(request.outputs)
            job = task.job(request, model, selection)
            computes = bool(selection) and not request.dry_run
            self._refuse_early(handle, model, budget, job, computes=computes)

            yield from self._thread_for(handle, budget, job)
            slices = Slices(
                job,
                model,
                selection,
                request.head_masks,
                cancelled=lambda: handle.cancelled,
                charge=budget.charge_tokenizing,
            )
            work = task.work(request, model, selection, job, slices, next(slices))
            overhead = self._size(handle, model, work, form)
            tokenize_ns = time.monotonic_ns() - handle.arrived_ns
            if request.dry_run:
                while slices.more:
                    yield TokenizerTurn(handle, self.tokenizers, CONTINUED_AS)
                    next(slices)
                prepared = self._whole(handle, model, work, slices, form)
                yield Room(handle, self.resuming, overhead)
                return Answer(prepared, [], Timings(tokenize_ns))

            handle.stage = "queue"
            prepared = work.prepared
            size, tokens = overhead + prepared.held_bytes, prepared.queued_tokens
            if handle.window is not None:
                yield WindowRoom(handle, handle.window, size)
            if not prepared.data_bytes:  # only token_info
                yield Room(handle, self.resuming, size)
                result, timings = [ItemResult() for _ in prepared.items], Timings(tokenize_ns)
            else:
                self._charge(handle, model, budget, work, slices)
                yield Room(
                    handle, self.resuming, size, tokens, lambda room: work.smaller(room - overhead)
                )
                result, timings = yield from self._compute(
                    handle, model, budget, work, slices, tokenize_ns
                )
                if slices.several:
                    prepared = self._whole(handle, model, work, slices, form)
                    budget.give_back_tokens()
                    budget.settle(slices.tokens)
            timings = timings._replace(total_ns=time.monotonic_ns() - handle.arrived_ns)
            return _answered(handle, model, work, work.answer(prepared, result, timings))

    def tokens(self, handle: Handle[bytes], form: TokensForm) -> Steps[bytes]:
        """Return the tokens of the inputs of a request, encoded by `form`: no queue, no engine."""
        model, budget = self._admit(handle)
        budget.refuse_early(0, math.inf, computes=False)
        job = tokenizing_job(handle.request, model)
        yield from self._thread_for(handle, budget, job)
        count = 0

        def tokens() -> Iterator[TokenList]:
            nonlocal count
            for each in tokenized(job, model.runtime, lambda: handle.cancelled):
                count += len(each.ids)
                if each.info is not None:
                    yield each.info

        try:
            answer = form.encode(model.ref, tokens(), len(job.inputs))
        finally:  # refused or not, these were tokenised
            budget.charge_tokenizing(count)
        yield Room(handle, self.resuming, len(answer))
        return answer

    def bucket_of(self, client: str) -> Bucket | None:
        """Return the token bucket of a client; None: there are no quotas."""
        return None if self.quotas is None else self.quotas.of(client)

    # The parts of these, in their order.

    def _admit(self, handle: Handle[Any]) -> tuple[ServedModel, RequestBudget]:
        """Find the model, and take the bytes of the request."""
        request = handle.request
        bucket, model = self.bucket_of(request.client), self.models.bind(request.model)
        budget = RequestBudget(
            model.admission, model.estimate, request.priority, bucket, model.release
        )
        handle.admit(model, budget)
        budget.take_request(request.held_bytes)
        return model, budget

    def _refuse_early(
        self,
        handle: Handle[Any],
        model: ServedModel,
        budget: RequestBudget,
        job: TokenizationJob,
        *,
        computes: bool,
    ) -> None:
        """Refuse what would be late or over quota: tokenising is most of the cost of a refusal."""
        if not computes:
            budget.refuse_early(0, math.inf, computes=False)
        elif budget.bucket is not None or handle.request.deadline < math.inf:
            least = job.size // (CHARACTERS_PER_TOKENIZED * TOKENIZED_PER_COMPUTED)
            tokens = max(model.density.tokens(job.inputs, job.sizes, model.max_length), least)
            budget.refuse_early(tokens, _time_left(handle))

    def _thread_for(
        self, handle: Handle[Any], budget: RequestBudget, job: TokenizationJob
    ) -> Generator[Wait, Any, None]:
        """Charge for tokenising, and wait for a thread for a long text.

        A short one stays on this thread: another one costs 100 µs or more.
        """
        # Charged before it keeps a thread busy.
        budget.charge_tokenizing(job.size / CHARACTERS_PER_TOKENIZED)
        handle.reach("tokenize")
        if job.size > SHORT_CHARACTERS:
            yield TokenizerTurn(handle, self.tokenizers, handle.request.priority)

    def _size(self, handle: Handle[Any], model: ServedModel, work: Work, form: AnswerForm) -> int:
        """Check the size of the answer; return its bytes besides its data."""
        _describe(handle, model, work.prepared)
        if not handle.request.dry_run:
            work.prepared.check_max_bytes()
        size = form.overhead_bytes(model.ref, work.prepared, work.details)
        if work.check_size is not None and not handle.request.dry_run:
            work.check_size(size)
        return size

    def _charge(
        self,
        handle: Handle[Any],
        model: ServedModel,
        budget: RequestBudget,
        work: Work,
        slices: Slices,
    ) -> None:
        """Charge for all work at once: a later charge could refuse the request half way."""
        if work.wave_tokens:
            with model.admission.lock:
                model.admission.check_wait(
                    model.estimate, work.tokens, _time_left(handle), handle.request.priority
                )
        if slices.several:
            budget.be_sliced(work.tokens)
        budget.charge(work.tokens)

    def _compute(
        self,
        handle: Handle[Any],
        model: ServedModel,
        budget: RequestBudget,
        work: Work,
        slices: Slices,
        tokenize_ns: int,
    ) -> Generator[Wait, Any, tuple[Any, Timings]]:
        """Drive the plan: have its items computed until it returns a result.

        A request that has begun is never shed half way, which would waste computed results: its
        waves wait for room, and its slices share a part of the queue that it keeps.
        """
        outcomes: list[Any] = [None]
        computed_tokens = queue_ns = infer_ns = 0
        while True:
            if computed_tokens and slices.more:
                handle.reach("tokenize")
                yield TokenizerTurn(handle, self.tokenizers, CONTINUED_AS)
            began_ns = time.monotonic_ns()
            step, result = _next_items(work, outcomes)
            if slices.several:
                tokenize_ns += time.monotonic_ns() - began_ns
            else:
                infer_ns += time.monotonic_ns() - began_ns
            if computed_tokens and work.intermediate_bytes:
                budget.give_back_answer(work.intermediate_bytes)
                handle.shrink_window(work.intermediate_bytes)
                work.intermediate_bytes = 0
            if step is None:
                return result, Timings(tokenize_ns, queue_ns, infer_ns)

            handle.stage = "queue"
            tokens = sum([len(item.ids) for item in step.items])
            if step.wave:
                yield Room(handle, self.resuming, 0, tokens, begun=True)
            in_turns = slices.several or bool(computed_tokens)
            computed: Computed = yield Computation(handle, step.items, in_turns=in_turns)
            outcomes.append(computed.results)
            queue_ns += computed.queue_ns
            infer_ns += computed.infer_ns
            del computed
            handle.stage = "infer"
            if slices.several:
                budget.computed_slice(tokens)
            else:
                budget.give_back_tokens()
            _count_computed(handle, model, step, tokens)
            if not computed_tokens and (slices.more or work.wave_tokens):
                _check_rest(handle, model, work.tokens - tokens)
            computed_tokens += tokens

    def _whole(
        self,
        handle: Handle[Any],
        model: ServedModel,
        work: Work,
        slices: Slices,
        form: AnswerForm,
    ) -> Prepared:
        """Return the request with all its inputs: those of several slices are known only now."""
        if not slices.several:
            return work.prepared
        prepared = dataclasses.replace(work.prepared, inputs=slices.inputs, tokens=slices.tokens)
        _describe(handle, model, prepared)
        form.overhead_bytes(model.ref, prepared, work.details)
        return prepared


def _time_left(handle: Handle[Any]) -> float:
    """Return the seconds that the queue may take; infinity if the request waits for room."""
    request = handle.request
    return math.inf if request.waits else request.deadline - time.monotonic()


def _next_items(work: Work, outcomes: list[Any]) -> tuple[Items | None, Any]:
    """Return the next items of a plan, or its result.

    The last outcome is taken out of its list: no frame may hold results that the plan lets go.
    """
    try:
        return work.plan.send(outcomes.pop()), None
    except StopIteration as end:
        return None, end.value


def _check_rest(handle: Handle[Any], model: ServedModel, tokens: int) -> None:
    """Refuse the rest of the work if it would far outlast the deadline even alone.

    The rate is known: the first part has just been computed.
    """
    with model.admission.lock:
        left = handle.request.deadline - time.monotonic()
        model.admission.check_alone(model.estimate, tokens, left)


def _count_computed(handle: Handle[Any], model: ServedModel, step: Items, tokens: int) -> None:
    priority, metrics = handle.request.priority, model.metrics
    metrics.texts[priority].inc(len(step.items) if step.texts is None else step.texts)
    metrics.tokens[priority].inc(tokens)


def _describe(handle: Handle[Any], model: ServedModel, prepared: Prepared) -> None:
    if handle.trace is not None:
        handle.trace.stage("")
        handle.trace.prepared(model.ref, prepared)


def _answered(handle: Handle[Any], model: ServedModel, work: Work, answer: Answer) -> Answer:
    """Count an answer's bytes and times for the metrics."""
    timings, metrics = answer.timings, model.metrics
    for name, size in work.answer_bytes.items():
        if size:
            metrics.output_bytes[name].inc(size)
    seconds = metrics.stage_seconds[handle.request.priority]
    seconds["tokenize"].observe(timings.tokenize_ns * 1e-9)
    seconds["queue"].observe(timings.queue_ns * 1e-9)
    seconds["infer"].observe(timings.infer_ns * 1e-9)
    seconds["total"].observe(timings.total_ns * 1e-9)
    return answer
