"""Fake servicer that keeps the contract, or breaks it on demand.

It enforces limits, returns configured refusals, and records all calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any, NoReturn

import grpc
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

from headlight.errors import HeadlightError, InvalidInput, NotFound
from headlight.pb import headlight_pb2 as pb
from headlight.pb.headlight_pb2_grpc import (
    HeadlightServiceServicer,
    add_HeadlightServiceServicer_to_server,
)
from headlight.reasons import Reason
from headlight.wire.status_errors import PUSHBACK_KEY
from headlight_service.frontends.grpc import grpc_status
from tests.headlight.fake_model import DIM, HEADS, LAYERS, REF, answer, frames_of, tokens_of


class Refusal(Exception):
    """Status to answer with."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        trailing: tuple[tuple[str, str | bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.trailing = code, message, trailing
        self.field, self.metadata = field_of(code, message), dict[str, str]()


def refused(error: HeadlightError) -> Refusal:
    """Return the status of a service for an error, with its reason."""
    said = grpc_status.error_status(error)
    made = Refusal(said.status, said.message, said.trailing_metadata)
    made.field, made.metadata = said.field, dict(said.metadata)
    return made


def shed(delay_ms: int) -> Refusal:
    """Return the status of a full queue, to be tried again after a delay."""
    trailing = ((PUSHBACK_KEY, str(delay_ms)),)
    return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", trailing)


@dataclasses.dataclass
class FakeServicer(HeadlightServiceServicer):
    """Servicer of one model named "fake"."""

    limits: pb.Limits
    names: tuple[str, ...] = ("fake",)
    max_length: int = 32
    # Whether GetModel declares unit length; vectors get it only if a request asks for it.
    normalized: bool = False
    accepts: tuple[str, ...] = ("text", "pair", "ids")
    ref: Callable[[int], pb.ModelRef] = lambda call: REF  # by number of Encode calls before
    # What makes of honest answers those of a server that misbehaves; unary and streamed alike.
    change_model: Callable[[pb.GetModelResponse], object] = lambda response: None
    change_answer: Callable[[pb.EncodeResponse], object] = lambda response: None
    change_tokens: Callable[[pb.TokenizeResponse], object] = lambda response: None
    change_occlusion: Callable[[pb.OccludeResponse], object] = lambda response: None
    change_frames: Callable[[list[pb.EncodeStreamResponse]], Iterable[pb.EncodeStreamResponse]] = (
        lambda frames: frames
    )
    refusals: deque[Refusal] = dataclasses.field(default_factory=deque)  # each call takes one
    numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)  # of Encode calls
    encoded: list[pb.EncodeRequest] = dataclasses.field(default_factory=list)
    tokenized: list[pb.TokenizeRequest] = dataclasses.field(default_factory=list)
    described: int = 0
    streams: int = 0

    def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        if request.model not in ("", *self.names):
            abort(
                context,
                refused(NotFound(Reason.NOT_SERVED, "model", names="fake")),
            )
        self.described += 1
        info = pb.ModelInfo(
            positions="rope",
            layers=LAYERS,
            heads=HEADS,
            dim=DIM,
            pooled_dim=DIM,
            prompts=[pb.NamedPrompt(name="query", text="find: ")],
            vocab_size=1000,
            trained_length=16,
            max_length=self.max_length,
            pooling="mean",
            normalized=self.normalized,
            accepts=self.accepts,
            outputs=["pooled", "tokens", "attention", "hidden", "token_info"],
            int8_dimensions=range(1, DIM + 1),
        )
        parity = pb.Parity(
            output="pooled", provider="cpu", precision="fp32", max_error=1.25e-7, tolerance=1e-5
        )
        variants = [pb.Variant(provider="cpu", precision="fp32")]
        response = pb.GetModelResponse(
            model=REF, info=info, limits=self.limits, variants=variants, parity=[parity]
        )
        self.change_model(response)
        return response

    def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        listed = pb.ListedModel(model=REF, names=["fake", "stable"], task="embed", default=True)
        return pb.ListModelsResponse(models=[listed])

    def Encode(self, request: pb.EncodeRequest, context: Any) -> pb.EncodeResponse:
        try:
            response = self.serve(request)
        except Refusal as refusal:
            abort(context, refusal)
        if response.ByteSize() > self.limits.max_unary_response_bytes:
            abort(
                context,
                Refusal(grpc.StatusCode.INVALID_ARGUMENT, "outputs: too large; use EncodeStream"),
            )
        return response

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        self.streams += 1
        while batch := list(itertools.islice(requests, self.limits.max_stream_in_flight)):
            answers = [self.change_frames(self.frames(request)) for request in reversed(batch)]
            for turn in itertools.zip_longest(*answers):  # interleaved, and the later request first
                yield from (frame for frame in turn if frame is not None)

    def Tokenize(self, request: pb.TokenizeRequest, context: Any) -> pb.TokenizeResponse:
        self.tokenized.append(request)
        if refusal := self.draw():
            abort(context, refusal)
        response = pb.TokenizeResponse(
            model=REF, items=[tokens_of(item) for item in request.inputs]
        )
        self.change_tokens(response)
        return response

    def Occlude(self, request: pb.OccludeRequest, context: Any) -> pb.OccludeResponse:
        moved = pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=[1], data=bytes(4))
        response = pb.OccludeResponse(
            model=REF, item=pb.Item(tokens=tokens_of(request.input)), tokens=[1], moved=moved
        )
        self.change_occlusion(response)
        return response

    def frames(self, request: pb.EncodeStreamRequest) -> list[pb.EncodeStreamResponse]:
        try:
            return frames_of(request.id, self.serve(request.encode))
        except Refusal as refusal:
            error = pb.Status(
                code=refusal.code.value[0],
                message=refusal.message,
                field=refusal.field,
                metadata=refusal.metadata,
            )
            for key, value in refusal.trailing:
                if key == PUSHBACK_KEY:
                    error.retry_after_ms = int(value)
            return [pb.EncodeStreamResponse(id=request.id, error=error)]

    def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
        number = next(self.numbers)  # atomic, because threads serve calls concurrently
        self.encoded.append(request)
        if refusal := self.draw():
            raise refusal
        self.check(request)
        response = answer(request, self.max_length, self.ref(number))
        self.change_answer(response)
        return response

    def draw(self) -> Refusal | None:
        """Return the next refusal. Atomic, because threads serve calls concurrently."""
        try:
            return self.refusals.popleft()
        except IndexError:
            return None

    def check(self, request: pb.EncodeRequest) -> None:
        bad = grpc.StatusCode.INVALID_ARGUMENT
        counts = [len(tokens_of(item).ids) for item in request.inputs]
        for index, item in enumerate(request.inputs):
            if item.HasField("text") and not item.text:
                raise refused(InvalidInput(f"inputs[{index}].text", Reason.EMPTY_TEXT))
            if counts[index] > self.max_length and request.truncation in (0, pb.TRUNCATION_REFUSE):
                tokens, most = counts[index], self.max_length
                error = InvalidInput(
                    f"inputs[{index}].text", Reason.TOO_LONG, tokens=tokens, most=most
                )
                raise refused(error)
        if not 1 <= len(counts) <= self.limits.max_items:
            raise Refusal(bad, f"inputs: {len(counts)} of 1 to {self.limits.max_items}")
        for index, layer in enumerate(request.outputs.attention.layers):
            if not -LAYERS <= layer < LAYERS:
                field, last = f"outputs.attention.layers[{index}]", LAYERS - 1
                error = InvalidInput(
                    field, Reason.OUT_OF_RANGE, value=layer, least=-LAYERS, last=last
                )
                raise refused(error)
        if sum(min(count, self.max_length) for count in counts) > self.limits.max_request_tokens:
            raise Refusal(bad, f"inputs: more than {self.limits.max_request_tokens} tokens")
        if request.ByteSize() > self.limits.max_request_bytes:
            raise Refusal(bad, "inputs: too many bytes")


def abort(context: Any, refusal: Refusal) -> NoReturn:
    details = () if refusal.metadata else details_of(refusal)
    context.set_trailing_metadata((*refusal.trailing, *details))
    context.abort(refusal.code, refusal.message)
    raise AssertionError("abort raises")


def field_of(code: grpc.StatusCode, message: str) -> str:
    """Return the field that a message names."""
    found = re.match(r"([a-z_]+[]a-z_.[0-9]*): ", message)
    return found[1] if found and code is grpc.StatusCode.INVALID_ARGUMENT else ""


def details_of(refusal: Refusal) -> tuple[tuple[str, bytes], ...]:
    """Return the details of a service that names the field at fault, but no reasons."""
    if not refusal.field:
        return ()
    status = Status(code=refusal.code.value[0], message=refusal.message)
    violation = BadRequest.FieldViolation(field=refusal.field)
    status.details.add().Pack(BadRequest(field_violations=[violation]))
    return (("grpc-status-details-bin", status.SerializeToString()),)


def default_limits() -> pb.Limits:
    return pb.Limits(
        max_items=8,
        max_request_bytes=2**20,
        max_unary_response_bytes=2**20,
        max_stream_output_bytes=2**24,
        max_stream_in_flight=2,
        max_request_tokens=256,
    )


@contextlib.contextmanager
def serving(servicer: FakeServicer, port: int = 0) -> Iterator[str]:
    """Serves on a loopback port, 0 for a free one, with the message limits of a stock server.

    Yields "host:port".
    """
    server = grpc.server(futures.ThreadPoolExecutor(8))
    add_HeadlightServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
