"""Request pipeline, callable from any thread.

    find the model -> take its bytes -> resolve the outputs -> refuse what would be late
    -> tokenise -> size the answer -> take answer bytes and queue tokens -> batch -> compute
    -> answer

A request for vectors with more tokens than the queue takes of one request repeats three steps,
slice by slice: tokenise, batch, compute. It keeps its part of the queue, so it is never shed half
way. All its slices are queued as bulk: its neighbours wait for at most one batch of it.

A step runs on the thread that reaches it: the caller's, the tokenizer's, the engine's, or the
timers' after a wait for room. A step waits only for its own work.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headlight.results import ModelRef
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, output_bytes
from headlight.runtime.spans.span_items import SpanItems, merge
from headlight.runtime.values import Ids, Tokenized
from headlight.spec import NUMBER_BYTES
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.rate_limit import (
    CHARACTERS_PER_TOKENIZED,
    TOKENIZED_PER_COMPUTED,
    Bucket,
    Quotas,
)
from headlight_service.core.admission.request_budget import BEGUN
from headlight_service.core.admission.waiting_list import Fitting
from headlight_service.core.codec_threads import CodecThreads
from headlight_service.core.handle import Handle, WhenGone
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.requests.answer import Answer, Prepared, Timings
from headlight_service.core.requests.request import Request
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.core.slices import Slices
from headlight_service.core.tokenization import (
    TokenizationJob,
    encoding_job,
    items_of,
    span_sizes,
    spans_of,
    tokenized,
)
from headlight_service.core.tokenize_request import Tokenizing, TokensForm
from headlight_service.core.tokenizer_threads import TokenizerThreads

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace


class AnswerForm(Protocol):
    """Size of one answer, as the frontend's protocol encodes it.

    The pipeline calls `overhead_bytes` before the frontend encodes the answer; for a request of
    several slices twice: with a bound of the answer, and with the answer.
    """

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """Return the bytes of an answer besides its data.

        Args:
            ref: the model.
            prepared: the request.
            hidden: int64 [m], the hidden tokens; None: the request is not an OcclusionRequest.

        Raises:
            InvalidInput: the protocol cannot carry the answer. The message names one that would
                fit.
        """


class Pipeline:
    """Entrance of the core for Encode and Tokenize.

    Occlude starts an `Occluding` with it, Compare a `Comparing`.

    Called from any thread.

    Attributes:
        models: the served models.
        tokenizers: threads for long requests.
        codec: threads that decode large requests and encode large answers, for event loops.
    """

    def __init__(
        self, models: Models, tokenizers: TokenizerThreads, quotas: Quotas | None = None
    ) -> None:
        """Serve the models of `models`, and those added later.

        Args:
            models: the served models.
            tokenizers: threads for long requests.
            quotas: token buckets of the clients; None: no client has a quota.
        """
        self.models = models
        self.tokenizers = tokenizers
        self.codec = CodecThreads()
        self._quotas = quotas

    def submit(
        self,
        request: Request,
        form: AnswerForm,
        *,
        trace: RequestTrace | None = None,
        window: AnswerWindow | None = None,
        here: bool = False,
        when_gone: WhenGone | None = None,
        when_queued: Callable[[], object] | None = None,
    ) -> Handle[Answer]:
        """Start a request to encode.

        Args:
            request: the inputs and the requested outputs.
            form: sizes the answer.
            trace: the request's spans.
            window: of the stream that carries the request.
            here: let this thread compute if an engine is idle. Not for an event loop's thread.
            when_gone: called with `Handle.cancel` before any step: this thread may compute for
                long.
            when_queued: called, on any thread, when the request, or its next part, has all room
                that it needs. Not called if it fails before, or needs no engine.

        Returns:
            A handle, to be closed once the answer is sent. Nothing is raised.
        """
        encoding = Encoding(self, request, form, trace, window, here=here, when_queued=when_queued)
        return encoding.start(when_gone)

    def tokenize(
        self,
        request: Request,
        form: TokensForm,
        *,
        trace: RequestTrace | None = None,
        when_gone: WhenGone | None = None,
    ) -> Handle[bytes]:
        """Start a request for the tokens of its inputs. The rest is as for `submit`."""
        return Tokenizing(self, request, form, trace).start(when_gone)

    def close(self) -> None:
        """Let its threads end."""
        self.tokenizers.close()
        self.codec.close()

    def bucket_of(self, client: str) -> Bucket | None:
        """Return the token bucket of a client; None: there are no quotas."""
        return None if self._quotas is None else self._quotas.of(client)


class Encoding(Handle[Answer]):
    """A request to encode, step by step. Each step names the next one.

    The first is `_admit`: find the model, take the request's bytes, resolve the requested outputs,
    refuse a request that would be late.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        request: Request,
        form: AnswerForm,
        trace: RequestTrace | None = None,
        window: AnswerWindow | None = None,
        *,
        here: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> None:
        """Prepare as described at `Pipeline.submit`."""
        super().__init__(pipeline, request, trace)
        self._form, self._window = form, window
        self._window_bytes = -1  # bytes held at the window; -1: none
        self._here = here and not request.waits  # it may begin on the timers' thread
        self._when_queued = when_queued
        self._stage = "tokenize"
        self._pending: PendingRequest | None = None
        self._selection: Selection
        self._prepared: Prepared
        self._slices: Slices | None = None
        self._sliced = False  # whether there are several
        self._slice = list[Tokenized]()  # inputs of the current one
        self._first_items = list[EncodeItem]()
        self._overhead = self._tokenize_ns = 0

    def _admit(self) -> None:
        """Take the bytes, resolve the outputs, check the estimated cost. Then: `_tokenize`."""
        super()._admit()
        request, model = self.request, self._model
        self._selection = selection = model.select(request.outputs)
        job = self._job_of(model)
        if not selection or request.dry_run:
            self._budget.refuse_early(0, math.inf, computes=False)
        elif self._budget.bucket is not None or request.deadline < math.inf:
            # Tokenising is most of the cost of a refusal.
            least = job.size // (CHARACTERS_PER_TOKENIZED * TOKENIZED_PER_COMPUTED)
            tokens = max(model.density.tokens(job.inputs, job.sizes, model.max_length), least)
            self._budget.refuse_early(tokens, self._time_left())
        self._begin_tokenizing(job)

    def _job_of(self, model: ServedModel) -> TokenizationJob:
        """Return what to tokenise. Raises InvalidInput, naming the field."""
        return encoding_job(self.request, model, self._selection)

    @property
    def _work(self) -> int:
        """Tokens to compute in all; of slices, an estimate."""
        return max(self._prepared.tokens, self._prepared.queued_tokens)

    def _tokenize(self) -> None:
        """Tokenise the next slice. Then: `_prepare` for the first, `_begin_slice` for others."""
        model, job = self._model, self._job
        if self._slices is None:
            most = job.max_tokens if job.sliced else sys.maxsize
            source = tokenized(job, model.runtime, lambda: self.cancelled)
            self._slices = Slices(source, most)
        slices, begun_ns = self._slices, time.monotonic_ns()
        try:
            inputs = slices.read()
        finally:  # refused or not, these were tokenised
            self._budget.charge_tokenizing(slices.tokens)
        if self.cancelled:
            return
        part = slice(len(slices.inputs), len(slices.inputs) + len(inputs))
        model.density.learn(job.inputs[part], job.sizes[part], inputs)
        masks = self.request.head_masks and self.request.head_masks[part]
        pooling = model.runtime.bundle.manifest.pooling
        items = items_of(inputs, self._selection, pooling, masks)
        self._sliced = self._sliced or slices.more
        self._slice = inputs
        if part.start:
            self._tokenize_ns += time.monotonic_ns() - begun_ns
            self._begin_slice(items)
        else:
            self._prepare(inputs, items)

    def _prepare(self, inputs: list[Tokenized], items: list[EncodeItem]) -> None:
        """Size the answer. Then: `_reserve_and_queue`."""
        model, request = self._model, self.request
        manifest = model.runtime.bundle.manifest
        spans, span_count, sum_bytes = None, 0, 0
        if "spans" in self._selection:
            spans = spans_of(self._job, inputs, items, self._selection, model.max_length)
            items = [item for work in spans for item in work.items]
            span_count, sum_bytes = span_sizes(spans, manifest.architecture.dim)
        tokens = sum([len(item.ids) for item in items])
        queued_tokens = max(tokens, span_count)
        held_bytes = sum_bytes
        if self._sliced:  # the size of the answer depends on the number of inputs alone
            tokens, queued_tokens = self._estimated_tokens(tokens), self._job.max_tokens
            self._budget.be_sliced(tokens)
            self._first_items = items
            inputs = [self._longest()] * len(self._job.inputs)
            items = items_of(inputs, self._selection, manifest.pooling, None)
            width = self._selection["pooled"].width or manifest.architecture.pooled_dim
            held_bytes = len(inputs) * width * NUMBER_BYTES["float32"]  # whatever type is asked for
        sizes = output_bytes(items, manifest.architecture)
        data_bytes = sum(sizes.values())
        self._prepared = prepared = Prepared(
            inputs,
            items,
            self._selection,
            manifest.architecture,
            request.outputs.token_info,
            request.priority,
            sizes,
            data_bytes,
            tokens,
            queued_tokens=queued_tokens,
            held_bytes=max(data_bytes, held_bytes),
            spans=spans,
        )
        self._describe()
        if not request.dry_run:
            prepared.check_max_bytes()
        self._overhead = self._measure()
        self._tokenize_ns = time.monotonic_ns() - self._arrived_ns
        self._reserve_and_queue()

    def _describe(self) -> None:
        if self._trace is not None:
            self._trace.stage("")
            self._trace.prepared(self._model.ref, self._prepared)

    def _longest(self) -> Tokenized:
        """Return an input whose description in an answer is the longest."""
        model = self._model
        ids = np.zeros(model.max_length, np.int64)
        return Tokenized(ids, model.max_characters, None, prompt_length=model.max_length)

    def _estimated_tokens(self, first: int) -> int:
        """Return about how many tokens all slices have, if the first has so many."""
        job, model, done = self._job, self._model, len(self._slice)
        rest = model.density.tokens(job.inputs[done:], job.sizes[done:], model.max_length)
        return first + rest

    def _measure(self) -> int:
        """Return the bytes of the answer besides its data."""
        return self._form.overhead_bytes(self._model.ref, self._prepared)

    def _reserve_and_queue(self) -> None:
        """Go on once the stream has room for the answer. Then: `_reserve_answer`.

        Without a stream there is no wait. A dry run is answered here.
        """
        if self.request.dry_run:
            if self._sliced:
                self._computed_slice(Computed([], 0, 0))
                return
            answer = Answer(self._prepared, [], Timings(self._tokenize_ns))
            self._take_room(functools.partial(self._finish, answer), self._overhead)
            return
        self._stage = "queue"
        if self._window is None or self._window.enter(self._window_size, self._proceed):
            self._reserve_answer()

    @property
    def _window_size(self) -> int:
        """Bytes that the request holds at the window."""
        return self._prepared.data_bytes

    def _proceed(self) -> None:
        """Go on once the window has room. Then: `_reserve_answer`."""
        self._run(self._reserve_answer)

    def _smaller(self, room: int) -> Fitting:
        """Return the field that asks for most of the answer, and a choice that would fit."""
        prepared = self._prepared
        room = (room - self._overhead) * prepared.data_bytes // max(1, prepared.held_bytes)
        return prepared.largest, prepared.what_fits(room)

    def _reserve_answer(self) -> None:
        """Charge for the tokens, and take the room for answer and queue. Then: `_queue`."""
        prepared = self._prepared
        if self._window is not None:
            self._window_bytes = self._window_size
        size = self._overhead + prepared.held_bytes
        if not prepared.data_bytes:  # only token_info
            described = Computed([ItemResult() for _ in prepared.items], 0, 0)
            self._take_room(functools.partial(self._answer, described), size)
            return
        self._budget.charge(self._work)
        items = self._first_items if self._sliced else prepared.items
        queue = functools.partial(self._queue, items, begun=self._sliced)
        self._take_room(queue, size, prepared.queued_tokens, smaller=self._smaller)

    def _queue(self, items: Sequence[EncodeItem], *, begun: bool = False) -> None:
        """Queue items whose tokens are held. Then: the scheduler, `_computed`.

        Slices, and the next part of a request that has begun, take turns with those of other
        clients.
        """
        request, model = self.request, self._model
        pending = PendingRequest(
            model.key,
            items,
            request.deadline,
            BEGUN if begun else request.priority,
            self._budget,
            self._computed,
            self._trace,
            flow=request.client if begun else "",
        )
        with self._lock:
            if self._over:
                return
            self._pending = pending
        if self._trace is not None:
            self._trace.stage("queue")
        if self._when_queued is not None:
            self._when_queued()
        # If there are other requests, an engine's thread runs it with theirs as one batch.
        here = self._here and not (begun or self._tokenizer_threads) and self._budget.alone
        model.scheduler.submit(pending, here=here)

    def _computed(self, outcome: Computed | Exception) -> None:
        """Take the scheduler's results or its error. Then: `_after_compute`."""
        self._pending = None  # breaks the cycle: it refers to this request
        if isinstance(outcome, Exception):
            self._fail(outcome)
        elif not self.cancelled:
            self._run(functools.partial(self._after_compute, outcome))

    def _after_compute(self, computed: Computed) -> None:
        """Count the texts, and give back the queue tokens. Then: `_answer`."""
        if self._sliced:
            self._computed_slice(computed)
            return
        priority, metrics = self.request.priority, self._model.metrics
        texts, tokens = len(computed.results), self._budget.give_back_tokens()
        if self._prepared.spans is not None:  # neither windows nor spans
            texts, tokens = len(self._prepared.inputs), self._prepared.tokens
        metrics.texts[priority].inc(texts)
        metrics.tokens[priority].inc(tokens)
        self._answer(computed)

    def _computed_slice(self, computed: Computed) -> None:
        """Keep the results of a slice. Then: `_tokenize` the next, or `_answer_slices`."""
        slices, inputs, priority = self._slices, self._slice, self.request.priority
        if slices is None or self.cancelled:
            return
        slices.add(inputs, computed)
        self._slice, self._first_items = [], []
        tokens, metrics = sum([len(each.ids) for each in inputs]), self._model.metrics
        if computed.results:  # no dry run
            metrics.texts[priority].inc(len(inputs))
            metrics.tokens[priority].inc(tokens)
            self._budget.computed_slice(tokens)
        if not slices.more:
            self._answer_slices(slices)
            return
        if computed.results and len(slices.inputs) == len(inputs):  # the first: a rate is known
            self._check_alone(self._work - tokens)
        self._stage = "tokenize"
        if self._trace is not None:
            self._trace.stage("tokenize")
        self._tokenize_later(BEGUN)

    def _check_alone(self, tokens: int) -> None:
        """Refuse the rest of the work if it would far outlast the deadline even alone."""
        admission, remaining = self._model.admission, self.request.deadline - time.monotonic()
        with admission.lock:
            admission.check_alone(self._model.estimate, tokens, remaining)

    def _begin_slice(self, items: list[EncodeItem]) -> None:
        """Queue the next slice, in place of the last. Then: `_computed`, `_computed_slice`."""
        if self.request.dry_run:
            self._computed_slice(Computed([], 0, 0))
            return
        self._stage = "queue"
        self._queue(items, begun=True)

    def _answer_slices(self, slices: Slices) -> None:
        """Make one answer of all slices, whose inputs are all known now."""
        prepared, tokens = self._prepared, slices.tokens
        self._prepared = dataclasses.replace(prepared, inputs=slices.inputs, tokens=tokens)
        self._describe()
        self._measure()
        if self.request.dry_run:
            answer = Answer(self._prepared, [], Timings(self._tokenize_ns))
            self._take_room(functools.partial(self._finish, answer), self._overhead)
            return
        self._budget.give_back_tokens()
        self._budget.settle(tokens)
        self._answer(Computed(slices.results, slices.queue_ns, slices.infer_ns))

    def _answer(self, computed: Computed) -> None:
        """Complete the handle's future with the answer."""
        if self._prepared.spans is not None:
            computed = self._merged(computed, self._prepared.spans)
        total_ns = time.monotonic_ns() - self._arrived_ns
        timings = Timings(self._tokenize_ns, computed.queue_ns, computed.infer_ns, total_ns)
        self._finish(Answer(self._prepared, computed.results, timings))

    def _merged(self, computed: Computed, spans: Sequence[SpanItems]) -> Computed:
        """Return a result for each input with spans: their items have only sums."""
        began_ns, runtime = time.monotonic_ns(), self._model.runtime
        normalize = runtime.bundle.manifest.normalize
        results = merge(spans, computed.results, runtime.engine.head, normalize)
        surplus = self._budget.answer_bytes - self._overhead - self._prepared.data_bytes
        if surplus > 0:  # the sums are no longer held
            self._budget.give_back_answer(surplus)
        merge_ns = time.monotonic_ns() - began_ns
        return Computed(results, computed.queue_ns, computed.infer_ns + merge_ns)

    def _count(self, answer: Answer) -> None:
        """Count an answer's bytes and times for the metrics."""
        if not answer.results:  # a dry run
            return
        metrics, timings = self._model.metrics, answer.timings
        for name, size in self._prepared.output_bytes.items():
            if size:
                metrics.output_bytes[name].inc(size)
        self._count_times(timings)

    def _count_times(self, timings: Timings) -> None:
        seconds = self._model.metrics.stage_seconds[self.request.priority]
        seconds["tokenize"].observe(timings.tokenize_ns * 1e-9)
        seconds["queue"].observe(timings.queue_ns * 1e-9)
        seconds["infer"].observe(timings.infer_ns * 1e-9)
        seconds["total"].observe(timings.total_ns * 1e-9)

    def _withdraw(self) -> str:
        """Withdraw the request from the step that it waits in, and return the stage."""
        if self._stage == "tokenize":
            return super()._withdraw()
        if self._window is not None:
            self._window.withdraw(self._proceed)
        pending, self._pending = self._pending, None
        if pending is None:
            return "queue"
        return "queue" if self._model.scheduler.withdraw(pending) else "infer"

    def close(self, error: BaseException | None = None, keep_answer_bytes: int = 0) -> int:
        """Release the request's resources, as `Handle.close` does, and leave the window."""
        kept = super().close(error, keep_answer_bytes)
        self._pending = None  # breaks the cycle: it refers to this request
        if self._slices is not None:
            self._slices.stop()
        if self._window is not None:
            self._leave_window()
        return kept

    def _leave_window(self, left: int = -1) -> None:
        """Leave the window; but keep so many bytes of it, unless -1."""
        with self._lock:
            held = self._window_bytes
            if held >= 0:
                self._window_bytes = left
        if self._window is not None and held >= 0:
            self._window.leave(held, max(0, left))
