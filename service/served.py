"""One model being served: a request's way from protobuf through tokeniser, admission and batcher to results."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import grpc

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.priority import Priority
from headlight.runtime import Runtime
from headlight.runtime.items import EncodeItem, ItemResult, item_of
from headlight.runtime.values import Tokenized
from service.admission import Admission, Permit, Shortage, largest_output
from service.answers import describe, header, model_ref, token_info, tokenize_answer
from service.batcher import Batcher
from service.convert import (
    EncodeInput,
    EncodeJob,
    Pair,
    TokenIds,
    TokenizeJob,
    check_tokens,
    encode_job,
    tokenize_job,
)
from service.groups import Answer
from service.interface import Interface
from service.metrics import ModelMetrics
from service.prepared import Prepared
from service.status import reason_of
from service.threads import Threads

T = TypeVar("T")
LEAST_TOKEN_INFO_BYTES = 8  # of one token on the wire: id, piece, start, end, special, segment
INLINE_CHARACTERS = 512  # some 50 µs to tokenise; handing that to a thread and back takes 100 µs and more


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
    ) -> None:
        """Join the parts; `batcher` has an engine and lanes under the model's name."""
        manifest = runtime.bundle.manifest
        accepts = tuple(kind for kind in manifest.accepts if kind == "ids" or runtime.tokenizer is not None)
        self.name = manifest.name
        self.ref = model_ref(runtime)
        self.limits = limits
        self.pooling = manifest.pooling
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
        )
        self._batcher = batcher
        self._admission = admission
        self._tokenizers = tokenizers
        self._metrics = metrics

    @property
    def description(self) -> pb.GetModelResponse:
        """The answer of GetModel."""
        return describe(self._runtime, self.ref, self._interface, self.limits)

    async def prepare(self, request: pb.EncodeRequest) -> Prepared:
        """Check and tokenise a request.

        Raises:
            InvalidInput: naming the field.
        """
        arrived_ns = time.monotonic_ns()
        job = encode_job(request, self._interface)

        def tokenize(left: threading.Event) -> tuple[list[Tokenized], list[EncodeItem], pb.EncodeResponse]:
            inputs = list(self._tokenized(job.tokenize, left))
            items = list(self._items(job, inputs))
            if not items:  # the caller has left
                return inputs, items, pb.EncodeResponse()
            with_info = request.outputs.HasField("token_info")
            return inputs, items, header(self.ref, inputs, items, with_info, self._architecture)

        inputs, items, response = await self._off_the_loop(job.tokenize, tokenize)
        response.timings.tokenize_ns = time.monotonic_ns() - arrived_ns
        sizes = [item.output_bytes(self._architecture) for item in items]
        response.data_bytes = sum(sum(size.values()) for size in sizes)
        return Prepared(inputs, items, response, sizes, arrived_ns, job.priority)

    def hold_output(self, prepared: Prepared) -> Permit:
        """A permit for the bytes of the answer, of which a process holds only so many. Leave it once they are sent.

        Raises:
            Shed: other callers' answers take too much; with what would fit.
        """
        info = prepared.header.ByteSize()  # the tokens, where they are asked for, can be most of an answer
        # A stream's header may come on top of what it may hold: that alone makes no answer one that can never be served.
        size = min(info + prepared.data_bytes, largest_output(self._admission.outputs.limit))
        fits = prepared.what_fits(self._admission.room - info)
        return self._admission.hold_output(size, prepared.largest, fits)

    def hold_info(self, size: int) -> Permit:
        """The same for an answer of so many bytes without data: of Tokenize, or of a dry run.

        Raises:
            Shed: other callers' answers take too much.
        """
        return self._admission.hold_output(size, "inputs", "")

    async def compute(self, prepared: Prepared, deadline: float, held: Permit) -> list[ItemResult]:
        """Run a prepared request, and note in its header where the time went.

        Args:
            prepared: not too large.
            deadline: on time.monotonic; infinity for none.
            held: the permit for its bytes. The batcher keeps it where the caller leaves while they are being computed.

        Raises:
            Shed: see Admission.admit.
            DeadlineExceeded, EngineError, Unavailable: see Batcher.submit.
        """
        metrics, timings = self._metrics, prepared.header.timings
        if not prepared.data_bytes:  # token_info alone
            return [ItemResult() for _ in prepared.items]
        results, timings.queue_ns, timings.infer_ns = await self.run(prepared.items, deadline, held, prepared.priority)
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
    ) -> Answer:
        """Run items of one role; see `compute`."""
        tokens = sum(len(item.ids) for item in items)
        with self._admission.admit(tokens, deadline - time.monotonic(), priority) as permit:
            answer = await self._batcher.submit(permit, self.name, items, deadline, held, priority)
        self._metrics.texts[priority].inc(len(items))
        self._metrics.tokens[priority].inc(tokens)
        return answer

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
        job = tokenize_job(request, self._interface)

        def tokenize(left: threading.Event) -> bytes:
            infos = (token_info(tokenized.info) for tokenized in self._tokenized(job, left) if tokenized.info)
            return tokenize_answer(self.ref, infos, len(job.inputs), self.limits.max_unary_response_bytes)

        return await self._off_the_loop(job, tokenize)

    @contextlib.contextmanager
    def receive(self, size: int) -> Iterator[Permit]:
        """Around everything that is done for one request: a permit for its bytes, and a count of how it fails.

        A caller who leaves while being written to shows as an error of gRPC's: counted by `stage`, and no failure.

        Raises:
            Shed: there is no room for so many bytes.
        """
        try:
            with self._admission.receive(size) as permit:
                yield permit
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            self._metrics.rejected[reason_of(error)].inc()
            raise

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count a caller who leaves meanwhile."""
        try:
            yield
        except (asyncio.CancelledError, grpc.aio.BaseError):
            self._metrics.cancelled[name].inc()
            raise

    def stalled(self) -> None:
        """Count a caller who did not take its answer."""
        self._metrics.rejected[Shortage.STALLED_READER].inc()

    async def _off_the_loop(self, job: TokenizeJob, work: Callable[[threading.Event], T]) -> T:
        """The whole of `work` on a request in one go: in a thread, unless that costs more than the work itself."""
        if sum(map(_size, job.inputs)) + len(job.prompt) * len(job.inputs) <= INLINE_CHARACTERS:
            return work(threading.Event())
        with self.stage("tokenize"):
            return await self._tokenizers.run(work)

    def _tokenized(self, job: TokenizeJob, left: threading.Event) -> Iterator[Tokenized]:
        """Each input in turn, until the caller has left."""
        tokens = 0
        for place, value in enumerate(job.inputs):
            if left.is_set():
                return
            try:
                tokenized = self._tokenize_one(value, job)
            except InvalidInput as error:
                field = f"inputs[{place}].{_kind(value)}.{error.field}".rstrip(".")
                raise InvalidInput(field, error.problem) from None
            tokens += len(tokenized.ids)
            check_tokens(tokens, job.max_tokens)
            yield tokenized

    def _items(self, job: EncodeJob, inputs: Sequence[Tokenized]) -> Iterator[EncodeItem]:
        """What is to run of each input."""
        for at, (tokenized, head_mask) in enumerate(zip(inputs, job.head_masks, strict=False)):
            try:
                yield item_of(tokenized, job.selection, self.pooling, head_mask)
            except InvalidInput as error:
                where = "" if len(job.head_masks) == 1 else f"inputs[{at}]: "
                raise InvalidInput(error.field, f"{where}{error.problem}") from None

    def _tokenize_one(self, value: EncodeInput, job: TokenizeJob) -> Tokenized:
        if isinstance(value, TokenIds):
            return self._runtime.check_ids(value.ids, value.segments, with_info=job.with_info)
        if self._runtime.tokenizer is None:
            raise RuntimeError("text was accepted without a tokenizer. This is a bug.")
        first, second = value if isinstance(value, Pair) else (value, None)
        prompt = "" if second is not None else job.prompt
        return self._runtime.tokenizer.encode(
            first, second, prompt=prompt, truncation=job.truncation, limit=job.limit, with_info=job.with_info
        )


def _kind(value: EncodeInput) -> str:
    """The field of pb.Input that it came in."""
    return "text" if isinstance(value, str) else "pair" if isinstance(value, Pair) else "ids"


def _size(value: EncodeInput) -> int:
    """Characters or ids to go through."""
    return len(value) if isinstance(value, str) else sum(map(len, value))
