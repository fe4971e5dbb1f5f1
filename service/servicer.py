"""The RPCs, one method each: from protobuf, wait, to protobuf. Errors are translated by the interceptor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from service.answers import fill
from service.deadline import deadline_of
from service.models import Models
from service.prepared import check_unary
from service.stream import Context, StreamCall

AnyContext = grpc.aio.ServicerContext[Any, Any]


class HeadlightServicer(pb_grpc.HeadlightServiceServicer):
    """headlight.v1.HeadlightService."""

    def __init__(self, models: Models, stall_seconds: float) -> None:
        """Nothing is served before `models` has one.

        Args:
            models: by name.
            stall_seconds: a stream whose caller takes nothing for so long is cut.
        """
        self._models = models
        self._stall_seconds = stall_seconds
        self._streams: set[StreamCall] = set()
        self._draining = False

    async def Encode(self, request: pb.EncodeRequest, context: AnyContext) -> pb.EncodeResponse:
        model = self._models.get(request.model)
        with model.receive(request.ByteSize()):
            prepared = await model.prepare(request)
            check_unary(prepared, model.limits.max_unary_response_bytes)
            with model.hold_output(prepared):
                results = await model.compute(prepared, deadline_of(context))
                fill(prepared.header, results)
            model.finish(prepared)
        return prepared.header

    async def EncodeStream(self, requests: AsyncIterator[pb.EncodeStreamRequest], context: Context) -> None:
        call = StreamCall(self._models, self._models.limits, context, deadline_of(context), self._stall_seconds)
        if self._draining:
            call.drain()
        self._streams.add(call)
        try:
            await call.serve(requests)
        finally:
            self._streams.discard(call)

    async def Tokenize(self, request: pb.TokenizeRequest, context: AnyContext) -> bytes:
        model = self._models.get(request.model)
        with model.receive(request.ByteSize()):
            return await model.tokenize(request)

    async def GetModel(self, request: pb.GetModelRequest, context: AnyContext) -> pb.GetModelResponse:
        return self._models.get(request.model).description

    def drain(self) -> None:
        """Let every stream end once it has answered what it has read."""
        self._draining = True
        for call in self._streams:
            call.drain()
