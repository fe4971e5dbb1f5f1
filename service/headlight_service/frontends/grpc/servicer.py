"""Servicer of the RPCs: decode, submit, wait, encode. The interceptor maps errors to statuses."""

from __future__ import annotations

from collections.abc import AsyncIterator

from headlight.errors import renamed
from headlight.interface.scoring import pair_names
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.core.models import counted
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.contract.answer_forms import OccludedForm, TokenizeForm, UnaryForm
from headlight_service.frontends.contract.comparison_decoding import decode_compare
from headlight_service.frontends.contract.comparison_forms import CompareForm
from headlight_service.frontends.contract.model_description import describe, list_models
from headlight_service.frontends.contract.request_decoding import (
    decode_encode,
    decode_occlude,
    decode_tokenize,
)
from headlight_service.frontends.contract.score_forms import LabelsForm, RanksForm
from headlight_service.frontends.contract.scoring_decoding import decode_classify, decode_rerank
from headlight_service.frontends.grpc.calls.request_stream import OpenStreams
from headlight_service.frontends.grpc.encode_stream import EncodeStream
from headlight_service.frontends.grpc.peer_timeouts import Replies, count_stalled
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.scoring import LABELLING


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
        self._streams = OpenStreams(self._replies)

    def Encode(self, request: pb.EncodeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            core_request = decode_encode(request, model, call.deadline, call.client)
        form = UnaryForm(model.limits, dry_run=request.dry_run)
        handle = self._pipeline.submit(
            core_request, form, trace=call.trace, may_compute=True, on_disconnect=call.on_disconnect
        )
        return self._replies.reply(call, model, handle, form.encode)

    async def EncodeStream(
        self, requests: AsyncIterator[pb.EncodeStreamRequest], call: Call
    ) -> None:
        stream = EncodeStream(self._pipeline, call, self._stall_seconds)
        await self._streams.serve(stream, requests, call)

    def Tokenize(self, request: pb.TokenizeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            core_request = decode_tokenize(request, model, call.client)
        handle = self._pipeline.tokenize(
            core_request,
            TokenizeForm(model.limits),
            trace=call.trace,
            on_disconnect=call.on_disconnect,
        )
        return self._replies.reply(call, model, handle, bytes)

    def Occlude(self, request: pb.OccludeRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            core_request = decode_occlude(request, model, call.deadline, call.client)
        form = OccludedForm(target=core_request.has_target)
        handle = self._pipeline.submit(
            core_request, form, trace=call.trace, on_disconnect=call.on_disconnect
        )
        return self._replies.reply(call, model, handle, form.encode)

    def Compare(self, request: pb.CompareRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model)
        with counted(model):
            core_request = decode_compare(request, model, call.deadline, call.client)
        form = CompareForm(model.limits.max_unary_response_bytes, dry_run=request.dry_run)
        handle = self._pipeline.submit(
            core_request, form, trace=call.trace, on_disconnect=call.on_disconnect
        )
        return self._replies.reply(call, model, handle, form.encode)

    def Rerank(self, request: pb.RerankRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model, "rerank")
        with counted(model):
            core_request = decode_rerank(request, model, call.deadline, call.client)
        form = RanksForm(request, model, model.limits.max_unary_response_bytes)
        with renamed(pair_names(len(request.documents))):
            handle = self._pipeline.submit(
                core_request,
                form,
                trace=call.trace,
                may_compute=True,
                on_disconnect=call.on_disconnect,
            )
            return self._replies.reply(call, model, handle, form.encode)

    def Classify(self, request: pb.ClassifyRequest, call: Call) -> bytes:
        model = self._pipeline.models.get(request.model, *LABELLING)
        with counted(model):
            core_request = decode_classify(request, model, call.deadline, call.client)
        form = LabelsForm(request, model, model.limits.max_unary_response_bytes)
        handle = self._pipeline.submit(
            core_request, form, trace=call.trace, may_compute=True, on_disconnect=call.on_disconnect
        )
        return self._replies.reply(call, model, handle, form.encode)

    def GetModel(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        model = self._pipeline.models.get(request.model)
        if call.trace is not None:
            call.trace.stage("reply")
        self._replies.add(call, on_cut=count_stalled(model))
        return describe(model, self._pipeline.models)

    def ListModels(self, request: pb.ListModelsRequest, call: Call) -> pb.ListModelsResponse:
        if call.trace is not None:
            call.trace.stage("reply")
        self._replies.add(call)
        return list_models(self._pipeline.models)

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._streams.drain()
