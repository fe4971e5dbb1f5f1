"""One model being served: a request's way from protobuf through tokeniser, admission and batcher to results."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.tokenization.tokenizer import SHORT_CHARACTERS
from headlight.runtime.values import Tokenized
from headlight.spec import SpecialTokens
from headlight.wire.priority import Priority
from headlight_service.core.admission import rate_limit
from headlight_service.core.admission.admission_control import Admission, Shed, Shortage, largest_output
from headlight_service.core.admission.permits import Permit
from headlight_service.core.cancellation import has_left
from headlight_service.core.model_interface import Interface
from headlight_service.core.prepared_request import Prepared, output_bytes
from headlight_service.core.scheduler.batcher import Batcher
from headlight_service.core.scheduler.pending_requests import Answer
from headlight_service.core.tokenization_job import Density, items_of, size_of, tokenized
from headlight_service.core.worker_threads import Threads
from headlight_service.frontends.grpc.answer_encoding import describe, header, model_ref, token_info, tokenize_answer
from headlight_service.frontends.grpc.grpc_status import reason_of
from headlight_service.frontends.grpc.request_decoding import TokenizeJob, encode_job, tokenize_job
from headlight_service.frontends.grpc.request_permits import Receiving
from headlight_service.frontends.grpc.transport.grpc_call import CallerGone
from headlight_service.telemetry.metrics import ModelMetrics
from headlight_service.telemetry.request_trace import CURRENT, stage

T = TypeVar("T")
LEAST_TOKEN_INFO_BYTES = 8  # of one token on the wire: id, piece, start, end, special, segment
NOBODY_LEAVES = threading.Event()  # never set: while work is done on the event loop nobody can leave


class ServedModel:
    """A runtime with its queue, its limits and its metrics."""

    def __init__(
        self,
        runtime: Runtime,
        limits: pb.Limits,
        *,
        batcher: Batcher,
        admission: Admission,
        tokenizers: Threads,
        metrics: ModelMetrics,
        max_characters: int,
        special_tokens: SpecialTokens = "parse",
    ) -> None:
        """Join the parts; `batcher` has an engine and lanes under the model's name."""
        manifest = runtime.bundle.manifest
        accepts = tuple(kind for kind in manifest.accepts if kind == "ids" or runtime.tokenizer is not None)
        self.name = manifest.name
        self.ref = model_ref(runtime)
        self.limits = limits
        self.pooling = manifest.pooling
        self.max_length = manifest.max_length
        self._runtime = runtime
        self._architecture = manifest.architecture
        self._interface = Interface(
            architecture=manifest.architecture,
            pooling=manifest.pooling,
            accepts=accepts,
            attend="attend" in runtime.roles,
            offer=runtime.offer,
            prompts=runtime.prompts,
            max_items=limits.max_items,
            max_characters=max_characters,
            max_length=manifest.max_length,
            max_tokens=limits.max_request_tokens,
            max_tokenized=limits.max_unary_response_bytes // LEAST_TOKEN_INFO_BYTES,
            special_tokens=special_tokens,
        )
        self._batcher = batcher
        self._admission = admission
        self._tokenizers = tokenizers
        self._density = Density()
        self._metrics = metrics

    @property
    def description(self) -> pb.GetModelResponse:
        """The answer of GetModel."""
        return describe(self._runtime, self.ref, self._interface, self.limits)

    async def prepare(self, request: pb.EncodeRequest, deadline: float = math.inf) -> Prepared:
        """Check and tokenise a request.

        Args:
            request: as it came.
            deadline: on time.monotonic; infinity for none.

        Raises:
            InvalidInput: naming the field.
            Shed: the queue would not come to it in time, or the caller's quota is used up.
            DeadlineExceeded: it has passed.
        """
        arrived_ns = time.monotonic_ns()
        stage("tokenize")
        job = encode_job(request, self._interface)
        size = size_of(job.tokenize)
        only_read = request.dry_run or not job.selection.computes  # and never queued
        if only_read:
            rate_limit.look_ahead(0)  # what reading costs may be owed, but no more while it is
        elif deadline < math.inf or rate_limit.applies():
            # Tokenising is most of what a refusal costs.
            tokens = self._density.tokens(job.tokenize, self._interface.max_length)
            tokens = max(tokens, rate_limit.least_tokens(size))
            rate_limit.look_ahead(tokens)
            self._admission.look_ahead(deadline - time.monotonic(), job.priority, tokens)

        inputs: list[Tokenized] = []
        rate_limit.will_read(size)

        def tokenize(left: threading.Event) -> tuple[list[EncodeItem], pb.EncodeResponse]:
            inputs.extend(tokenized(job.tokenize, self._runtime, left))
            items = list(items_of(job, inputs, self.pooling))
            if not items:  # the caller has left
                return items, pb.EncodeResponse()
            with_info = request.outputs.HasField("token_info")
            return items, header(self.ref, inputs, items, with_info, self._architecture)

        try:
            items, response = await self._off_the_loop(job.tokenize, tokenize, job.priority)
        finally:  # refused now, later or never, and were it that the caller has left: that much was read
            read = rate_limit.has_read(sum(len(each.ids) for each in inputs), size)
        response.timings.tokenize_ns = time.monotonic_ns() - arrived_ns
        self._density.learn(job.tokenize, inputs)
        sizes = output_bytes(items, self._architecture)
        data_bytes = response.data_bytes = sum(sizes.values())
        prepared = Prepared(
            inputs, items, response, sizes, data_bytes, self._architecture, arrived_ns, job.priority, read
        )
        spans = CURRENT.get()
        if spans is not None:
            spans.stage("")
            spans.prepared(self.ref, prepared)
        return prepared

    def hold_output(self, prepared: Prepared) -> Permit:
        """A permit for the bytes of the answer, of which a process holds only so many. Leave it once they are sent.

        Raises:
            Shed: other callers' answers take too much; with what would fit.
        """
        info = prepared.header.ByteSize()  # the tokens, where they are asked for, can be most of an answer
        # A stream's header may come on top of what it may hold: that alone makes no answer one that can never be served.
        size = min(info + prepared.data_bytes, largest_output(self._admission.outputs.limit))
        room = self._admission.room
        field, fits = ("", "") if size <= room else (prepared.largest, prepared.what_fits(room - info))
        return self._admission.hold_output(size, field, fits)

    def hold_info(self, size: int, field: str = "inputs") -> Permit:
        """The same for an answer of so many bytes, most of them tokens of a field: of Tokenize, Occlude, or a dry run.

        Raises:
            Shed: other callers' answers take too much.
        """
        return self._admission.hold_output(min(size, largest_output(self._admission.outputs.limit)), field, "")

    def look_ahead(self, tokens: int, deadline: float, priority: Priority) -> None:
        """Refuse, before the first of several runs of so many tokens in all, what would not be done in time. Raises Shed."""
        self._admission.look_ahead(deadline - time.monotonic(), priority, tokens)

    def check_rest(self, tokens: int, deadline: float) -> None:
        """Refuse the other runs where even alone they would not nearly be done in time. Raises Shed."""
        self._admission.check_alone(tokens, deadline - time.monotonic())

    async def compute(self, prepared: Prepared, deadline: float, held: Permit) -> list[ItemResult]:
        """Run a prepared request, and note in its header where the time went.

        Args:
            prepared: not too large.
            deadline: on time.monotonic; infinity for none.
            held: the permit for its bytes. The batcher keeps it where the caller leaves while they are being computed.

        Raises:
            Shed: see Admission.admit and Bucket.charge.
            DeadlineExceeded, EngineError, Unavailable: see Batcher.submit.
        """
        metrics, timings = self._metrics, prepared.header.timings
        if not prepared.data_bytes:  # token_info alone
            stage("reply")
            return [ItemResult() for _ in prepared.items]
        results, timings.queue_ns, timings.infer_ns = await self.run(
            prepared.items, deadline, held, prepared.priority, read=prepared.read
        )
        stage("reply")
        for name, size in prepared.output_bytes.items():
            if size:
                metrics.output_bytes[name].inc(size)
        return results

    async def run(
        self,
        items: Sequence[EncodeItem],
        deadline: float,
        held: Permit | None = None,
        priority: Priority = "interactive",
        *,
        read: float | None = None,
    ) -> Answer:
        """Run items of one role, read by `prepare`; see `compute`.

        `read`: the tokens read that were charged for; None: the caller has charged for the whole work.
        """
        tokens = sum(len(item.ids) for item in items)
        with (
            rate_limit.FREE if read is None else rate_limit.charge(tokens, read=read),
            self._waiting(tokens, deadline, priority),
            self._admission.admit(tokens, deadline - time.monotonic(), priority) as permit,
        ):
            answer = await self._batcher.submit(permit, self.name, items, deadline, held, priority)
        self._metrics.texts[priority].inc(len(items))
        self._metrics.tokens[priority].inc(tokens)
        return answer

    @contextlib.contextmanager
    def _waiting(self, tokens: int, deadline: float, priority: Priority) -> Iterator[None]:
        """Around the wait of a request in the queue: what it takes is compared with what was expected."""
        began = time.monotonic()
        expected, outlook = self._admission.expect(tokens, priority), self._admission.outlook
        try:
            yield
        except Shed:
            raise
        except BaseException:  # given up: by the queue at the deadline or, mostly a little earlier, by the caller
            if time.monotonic() - began > outlook.latest(expected, priority):
                outlook.waited(expected, priority, deadline - began, math.inf)
            raise
        outlook.waited(expected, priority, deadline - began, time.monotonic() - began)

    def finish(self, prepared: Prepared) -> None:
        """Note the total time; what follows is only copying and sending."""
        timings, seconds = prepared.header.timings, self._metrics.stage_seconds[prepared.priority]
        timings.total_ns = time.monotonic_ns() - prepared.arrived_ns
        seconds["tokenize"].observe(timings.tokenize_ns * 1e-9)
        seconds["queue"].observe(timings.queue_ns * 1e-9)
        seconds["infer"].observe(timings.infer_ns * 1e-9)
        seconds["total"].observe(timings.total_ns * 1e-9)

    async def tokenize(self, request: pb.TokenizeRequest) -> bytes:
        """The answer of Tokenize, serialised: megabytes of it are some time's work, for which nobody else should wait.

        Raises:
            InvalidInput: naming the field.
        """
        stage("tokenize")
        job = tokenize_job(request, self._interface)
        rate_limit.look_ahead(0)
        size, read = size_of(job), 0
        rate_limit.will_read(size)

        def infos(left: threading.Event) -> Iterator[pb.TokenInfo]:
            nonlocal read
            for each in tokenized(job, self._runtime, left):
                read += len(each.ids)
                if each.info:
                    yield token_info(each.info)

        def tokenize(left: threading.Event) -> bytes:
            return tokenize_answer(self.ref, infos(left), len(job.inputs), self.limits.max_unary_response_bytes)

        try:
            return await self._off_the_loop(job, tokenize)
        finally:  # refused or not, and were it that the caller has left
            rate_limit.has_read(read, size)

    def receive(self, size: int) -> Receiving:
        """Around everything that is done for one request: a permit for its bytes, and a count of how it fails.

        A caller who leaves while being written to shows as CallerGone: counted by `stage`, and no failure.

        Raises:
            Shed: there is no room for so many bytes.
        """
        try:
            permit = self._admission.receive(size)
        except Shed as error:
            self._metrics.rejected[reason_of(error)].inc()
            raise
        return Receiving(permit, self._metrics)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count a caller who leaves meanwhile."""
        try:
            yield
        except (asyncio.CancelledError, CallerGone):
            if has_left():
                self._metrics.cancelled[name].inc()
            raise

    def stalled(self) -> None:
        """Count a caller who did not take its answer."""
        self._metrics.rejected[Shortage.STALLED_READER].inc()

    async def _off_the_loop(
        self, job: TokenizeJob, work: Callable[[threading.Event], T], priority: Priority = "interactive"
    ) -> T:
        """The whole of `work` on a request in one go: in a thread, unless that costs more than the work itself."""
        if size_of(job) <= SHORT_CHARACTERS:  # to hand it to a thread and back takes 100 µs and more
            return work(NOBODY_LEAVES)
        with self.stage("tokenize"):
            return await self._tokenizers.run(work, priority)
