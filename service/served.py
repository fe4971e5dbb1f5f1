"""One model being served: a request's way from protobuf through tokeniser, admission and batcher to results."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor

from headlight.errors import Code, HeadlightError, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight.runtime.values import EncodeItem, ItemResult, Selection, Tokenized
from service.admission import Admission
from service.answers import FLOAT_BYTES, FRAMING_BYTES, describe, header, model_ref, output_elements, token_info
from service.batcher import Batcher
from service.convert import EncodeInput, Interface, Pair, TokenIds, TokenizeJob, encode_job, tokenize_job
from service.frames import HEADER_LIMIT_BYTES
from service.metrics import ModelMetrics

INLINE_CHARACTERS = 512  # some 50 µs to tokenise; handing that to a thread and back takes 100 µs and more


@dataclasses.dataclass(slots=True)
class Prepared:
    """A request that could run: tokenised, its answer's size known.

    Attributes:
        header: the answer without data.
        output_bytes: of data, by output.
    """

    inputs: list[Tokenized]
    selection: Selection
    header: pb.EncodeResponse
    output_bytes: dict[str, int]
    arrived_ns: int

    @property
    def data_bytes(self) -> int:
        return sum(self.output_bytes.values())

    @property
    def tokens(self) -> int:
        return sum(len(tokenized.ids) for tokenized in self.inputs)


class ServedModel:
    """A runtime with its queue, its limits and its metrics."""

    def __init__(
        self,
        runtime: Runtime,
        limits: pb.Limits,
        *,
        batcher: Batcher,
        admission: Admission,
        tokenizers: Executor,
        metrics: ModelMetrics,
    ) -> None:
        """Join the parts; `batcher` has an engine and lanes under the model's name."""
        manifest = runtime.bundle.manifest
        accepts = tuple(kind for kind in manifest.accepts if kind == "ids" or runtime.tokenizer is not None)
        self.name = manifest.name
        self.ref = model_ref(runtime)
        self.limits = limits
        self._runtime = runtime
        self._architecture = manifest.architecture
        self._interface = Interface(manifest.architecture.layers, accepts, "attend" in runtime.roles, limits.max_items)
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
        inputs = await self._tokenize(job.tokenize)
        tokenize_ns = time.monotonic_ns() - arrived_ns
        response = header(self.ref, inputs, job.selection, self._architecture)
        response.timings.tokenize_ns = tokenize_ns
        sizes = dict.fromkeys(("pooled", "tokens", "attention", "hidden"), 0)
        for tokenized in inputs:
            for name, count in output_elements(job.selection, len(tokenized.ids), self._architecture).items():
                sizes[name] += FLOAT_BYTES * count
        return Prepared(inputs, job.selection, response, sizes, arrived_ns)

    def check_unary(self, prepared: Prepared) -> None:
        """Refuse, before anything runs, an answer that the caller could not receive in one message.

        Raises:
            InvalidInput: naming the largest output, the size and the remedy.
        """
        info, limit = prepared.header.ByteSize(), self.limits.max_unary_response_bytes
        size = info + prepared.data_bytes + FRAMING_BYTES
        if size > limit:
            remedy = "ask for fewer layers or inputs, or use EncodeStream"
            raise InvalidInput(_largest(prepared, info), f"the answer would have {size} bytes, over {limit}; {remedy}")

    def check_stream(self, prepared: Prepared) -> None:
        """Refuse, before anything runs, an answer that a stream may not hold.

        Raises:
            InvalidInput: naming the largest output, the size and the remedy.
        """
        info, size, limit = prepared.header.ByteSize(), prepared.data_bytes, self.limits.max_stream_output_bytes
        if size > limit:
            problem = f"the answer would have {size} bytes, over {limit}; ask for fewer layers or inputs per request"
            raise InvalidInput(_largest(prepared, 0), problem)
        if info > HEADER_LIMIT_BYTES:
            raise InvalidInput("outputs.token_info", f"would have {info} bytes; send fewer inputs per request")

    async def compute(self, prepared: Prepared, deadline: float) -> list[ItemResult]:
        """Run a prepared request, and note in its header where the time went.

        Args:
            prepared: checked by check_unary or check_stream.
            deadline: on time.monotonic; infinity for none.

        Raises:
            Overloaded, DeadlineExceeded, EngineError, Unavailable: see Batcher.submit.
        """
        metrics, timings = self._metrics, prepared.header.timings
        if not prepared.data_bytes:  # token_info alone
            return [ItemResult(None, None, None, None) for _ in prepared.inputs]
        items = [EncodeItem(each.ids, prepared.selection, each.segments) for each in prepared.inputs]
        with self._admission.admit(prepared.tokens) as permit:
            results, timings.queue_ns, timings.infer_ns = await self._batcher.submit(permit, self.name, items, deadline)
        metrics.texts.inc(len(items))
        metrics.tokens.inc(prepared.tokens)
        for name, size in prepared.output_bytes.items():
            if size:
                metrics.output_bytes[name].inc(size)
        return results

    def finish(self, prepared: Prepared) -> None:
        """Note the total time; what follows is only copying and sending."""
        timings, seconds = prepared.header.timings, self._metrics.stage_seconds
        timings.total_ns = time.monotonic_ns() - prepared.arrived_ns
        seconds["tokenize"].observe(timings.tokenize_ns * 1e-9)
        seconds["queue"].observe(timings.queue_ns * 1e-9)
        seconds["infer"].observe(timings.infer_ns * 1e-9)
        seconds["total"].observe(timings.total_ns * 1e-9)

    async def tokenize(self, request: pb.TokenizeRequest) -> pb.TokenizeResponse:
        """The answer of Tokenize.

        Raises:
            InvalidInput: naming the field.
        """
        inputs = await self._tokenize(tokenize_job(request, self._interface))
        infos = [token_info(tokenized.info) for tokenized in inputs if tokenized.info is not None]
        response = pb.TokenizeResponse(model=self.ref, items=infos)
        size, limit = response.ByteSize(), self.limits.max_unary_response_bytes
        if size > limit:
            raise InvalidInput(
                "inputs", f"the answer would have {size} bytes, over {limit}; send fewer or shorter inputs"
            )
        return response

    @contextlib.contextmanager
    def rejections(self) -> Iterator[None]:
        """Count the requests that fail inside."""
        try:
            yield
        except HeadlightError as error:
            self._metrics.rejected[error.code.value].inc()
            raise
        except Exception:
            self._metrics.rejected[Code.INTERNAL.value].inc()
            raise

    async def _tokenize(self, job: TokenizeJob) -> list[Tokenized]:
        """The whole request in one go: off the event loop, unless that costs more than the work itself."""
        if sum(map(_size, job.inputs)) <= INLINE_CHARACTERS:
            return self._tokenize_now(job)
        return await asyncio.get_running_loop().run_in_executor(self._tokenizers, self._tokenize_now, job)

    def _tokenize_now(self, job: TokenizeJob) -> list[Tokenized]:
        done, tokens = [], 0
        for place, value in enumerate(job.inputs):
            try:
                done.append(self._tokenize_one(value, job))
            except InvalidInput as error:
                field = f"inputs[{place}].{_kind(value)}.{error.field}".rstrip(".")
                raise InvalidInput(field, error.problem) from None
            tokens += len(done[-1].ids)
            if job.limit and tokens > self.limits.max_request_tokens:
                limit = self.limits.max_request_tokens
                raise InvalidInput("inputs", f"have more than {limit} tokens together; split the request")
        return done

    def _tokenize_one(self, value: EncodeInput, job: TokenizeJob) -> Tokenized:
        if isinstance(value, TokenIds):
            return self._runtime.check_ids(value.ids, value.segments, with_info=job.with_info)
        if self._runtime.tokenizer is None:
            raise RuntimeError("text was accepted without a tokenizer. This is a bug.")
        first, second = value if isinstance(value, Pair) else (value, None)
        return self._runtime.tokenizer.encode(
            first, second, truncation=job.truncation, limit=job.limit, with_info=job.with_info
        )


def _kind(value: EncodeInput) -> str:
    """The field of pb.Input that it came in."""
    return "text" if isinstance(value, str) else "pair" if isinstance(value, Pair) else "ids"


def _size(value: EncodeInput) -> int:
    """Characters or ids to go through."""
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _largest(prepared: Prepared, info_bytes: int) -> str:
    """The field that asks for most of the answer."""
    sizes: Mapping[str, int] = {**prepared.output_bytes, "token_info": info_bytes}
    return "outputs." + max(sizes, key=lambda name: sizes[name])
