"""Servicer of tei.v1: decode, submit, wait, encode. The interceptor maps errors to statuses."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc

from headlight.errors import renamed
from headlight.interface.scoring import pair_names
from headlight_service.core.models import ServedModel
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.request import Request
from headlight_service.frontends.grpc.calls.request_stream import OpenStreams, RequestStream
from headlight_service.frontends.grpc.grpc_status import NotServed
from headlight_service.frontends.grpc.peer_timeouts import Replies, count_stalled
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.grpc.tei.tei_answers import ScoresForm, VectorForm
from headlight_service.frontends.grpc.tei.tei_decoding import (
    decode_embed,
    decode_predict,
    decode_rerank,
    decode_tokenize,
    needs_of,
)
from headlight_service.frontends.grpc.tei.tei_streams import LabelStream, TokenStream, VectorStream
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.scoring import LABELLING
from headlight_service.frontends.tei.service_info import service_info
from headlight_service.frontends.tei.tei_requests import (
    NO_DECODING,
    ONE_TEXT,
    SEVERAL_TEXTS,
    TASKS,
    gives_no,
)

ONLY_HTTP = ("pooling", "labels", "auto_truncate")  # parts of the description
NO_RANK_STREAM = "a ranking needs all texts: call tei.v1.Rerank with them in one message"


class TeiServicer:
    """All services of tei.v1. Unary methods run on a call's thread, streams on the loop."""

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

    def Info(self, request: pb.InfoRequest, call: Call) -> pb.InfoResponse:
        model = self._pipeline.models.get()
        info = dataclasses.asdict(service_info(model, self._pipeline.tokenizers.count))
        for name in ONLY_HTTP:
            del info[name]
        self._replies.add(call, on_cut=count_stalled(model))
        model_type = f"MODEL_TYPE_{TASKS[info.pop('task')].model_type.upper()}"
        return pb.InfoResponse(model_type=model_type, **info)

    def Embed(self, request: pb.EmbedRequest, call: Call) -> bytes:
        return self._vectors(request, call)

    def EmbedAll(self, request: pb.EmbedAllRequest, call: Call) -> bytes:
        return self._vectors(request, call)

    def EmbedSparse(self, request: pb.EmbedSparseRequest, call: Call) -> bytes:
        call.edge, model = ONE_TEXT, self._model_for("sparse vectors", "sparse")
        return self._answered(call, model, *decode_embed(request, model, call))

    def Predict(self, request: pb.PredictRequest, call: Call) -> bytes:
        return self._labels(request, call)

    def PredictPair(self, request: pb.PredictPairRequest, call: Call) -> bytes:
        return self._labels(request, call)

    def Rerank(self, request: pb.RerankRequest, call: Call) -> bytes:
        call.edge, model = SEVERAL_TEXTS, self._model_for("ranks", "rerank")
        with renamed(pair_names(len(request.texts), "texts")):
            return self._answered(call, model, *decode_rerank(request, model, call))

    def Tokenize(self, request: pb.EncodeRequest, call: Call) -> bytes:
        call.edge, model = ONE_TEXT, self._pipeline.models.get()
        core_request, form = decode_tokenize(request, model, call)
        handle = self._pipeline.tokenize(
            core_request, form, trace=call.trace, on_disconnect=call.on_disconnect
        )
        return self._replies.reply(call, model, handle, bytes)

    async def EmbedStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        await self._stream(VectorStream, requests, call)

    async def EmbedAllStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        await self._stream(VectorStream, requests, call)

    async def EmbedSparseStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        self._model_for("sparse vectors", "sparse")
        await self._stream(VectorStream, requests, call)

    async def PredictStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        self._model_for("classes", *LABELLING)
        await self._stream(LabelStream, requests, call)

    async def PredictPairStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        self._model_for("classes", *LABELLING)
        await self._stream(LabelStream, requests, call)

    async def TokenizeStream(self, requests: AsyncIterator[Any], call: Call) -> None:
        await self._stream(TokenStream, requests, call)

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._streams.drain()

    def _vectors(self, request: pb.EmbedRequest | pb.EmbedAllRequest, call: Call) -> bytes:
        call.edge, model = ONE_TEXT, self._pipeline.models.get("", *needs_of(request))
        return self._answered(call, model, *decode_embed(request, model, call))

    def _labels(self, request: pb.PredictRequest | pb.PredictPairRequest, call: Call) -> bytes:
        call.edge, model = ONE_TEXT, self._model_for("classes", *LABELLING)
        return self._answered(call, model, *decode_predict(request, model, call))

    def _answered(
        self, call: Call, model: ServedModel, core_request: Request, form: VectorForm | ScoresForm
    ) -> bytes:
        handle = self._pipeline.submit(
            core_request, form, trace=call.trace, may_compute=True, on_disconnect=call.on_disconnect
        )
        message = self._replies.reply(call, model, handle, form.encode)
        with contextlib.suppress(grpc.RpcError):  # the client has just disconnected
            call.context.send_initial_metadata(tuple(form.report.headers().items()))
        return message

    async def _stream(
        self, kind: type[RequestStream[Any, Any]], requests: AsyncIterator[Any], call: Call
    ) -> None:
        call.edge = ONE_TEXT
        stream = kind(self._pipeline, call, self._stall_seconds)
        await self._streams.serve(stream, requests, call)

    def _model_for(self, what: str, *needs: str) -> ServedModel:
        """Return the model. Raises NotServed: it serves none of these, and gives no `what`."""
        model = self._pipeline.models.get("", *needs)
        if not model.serves(*needs):
            raise _gives_no(model, what)
        return model

    # The methods below need another model, or a part that the service does not have.

    def _no_rank_stream(self, request: Any, call: Call) -> NoReturn:
        self._model_for("ranks", "rerank")
        raise NotServed(NO_RANK_STREAM)

    def _no_decoding(self, request: Any, call: Call) -> NoReturn:
        raise NotServed(NO_DECODING)

    RerankStream = _no_rank_stream
    Decode = DecodeStream = _no_decoding


def _gives_no(model: ServedModel, what: str) -> NotServed:
    problem = gives_no(model.description, what, TASKS[model.description.task].method)
    return NotServed(problem, grpc.StatusCode.FAILED_PRECONDITION)
