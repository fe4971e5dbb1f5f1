"""Servicer of the RPCs: decode, submit, wait, encode. The interceptor maps errors to statuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.core.handle import Handle
from headlight_service.core.models import ServedModel
from headlight_service.core.occlusion import Occluding
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.contract.answer_forms import OccludedForm, TokenizeForm, UnaryForm
from headlight_service.frontends.contract.model_description import describe
from headlight_service.frontends.contract.request_decoding import (
    counted,
    decode_encode,
    decode_occlude,
    decode_tokenize,
)
from headlight_service.frontends.grpc.encode_stream import StreamCall
from headlight_service.frontends.grpc.peer_timeouts import Replies
from headlight_service.frontends.grpc.transport.grpc_call import Call

T = TypeVar("T")


class HeadlightServicer(pb_grpc.HeadlightServiceServicer):
    """headlight.v1.HeadlightService. Unary methods run on a call's thread, streams on the loop."""

    def __init__(self, pipeline: Pipeline, stall_seconds: float) -> None:
        """Use the running event loop.

        Args:
            pipeline: receives the requests.
            stall_seconds: reply timeout of a client that takes nothing of its answer.
        """
        self._pipeline = pipeline
        self._stall_seconds = stall_seconds
        self._replies = Replies(stall_seconds)
        self._streams: set[StreamCall] = set()
        self._draining = False

    def Encode(self, request: pb.EncodeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            wanted = decode_encode(request, model, call.deadline, call.quota_owner)
        form = UnaryForm(model.limits, dry_run=request.dry_run)
        handle = self._pipeline.submit(
            wanted, form, trace=call.trace, here=True, when_gone=call.when_gone
        )
        return self._reply(call, model, handle, form.encode)

    async def EncodeStream(
        self, requests: AsyncIterator[pb.EncodeStreamRequest], call: Call
    ) -> None:
        stream = StreamCall(self._pipeline, call, self._stall_seconds)
        if self._draining:
            stream.drain()
        self._streams.add(stream)
        try:
            await stream.serve(requests)
        finally:
            self._streams.discard(stream)
            self._replies.linger(call)

    def Tokenize(self, request: pb.TokenizeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            wanted = decode_tokenize(request, model, call.quota_owner)
        handle = self._pipeline.tokenize(
            wanted, TokenizeForm(model.limits), trace=call.trace, when_gone=call.when_gone
        )
        return self._reply(call, model, handle, bytes)

    def Occlude(self, request: pb.OccludeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            wanted = decode_occlude(request, model, call.deadline, call.quota_owner)
        form = OccludedForm()
        handle = Occluding(self._pipeline, wanted, form, call.trace).start(call.when_gone)
        return self._reply(call, model, handle, form.encode)

    def GetModel(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        model = self._pipeline.models.get(request.model)
        if call.trace is not None:
            call.trace.stage("reply")
        self._replies.add(call, on_cut=_count_stalled(model))
        return describe(model)

    def _reply(
        self, call: Call, model: ServedModel, handle: Handle[T], encode: Callable[[T], bytes]
    ) -> bytes:
        """Wait for an answer; its resources are held until it has been sent."""
        answer = handle.result()  # a failed request has given everything back
        try:
            message = encode(answer)
        except Exception as error:
            handle.close(error)
            raise
        self._replies.add(call, handle.answer_bytes, _count_stalled(model))
        call.acts.append(handle.close)
        return message

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._draining = True
        for call in self._streams:
            call.drain()


def _count_stalled(model: ServedModel) -> Callable[[], None]:
    """Return a counter of answers that the client did not take."""
    return model.metrics.rejected[Shortage.STALLED_READER].inc
