"""The RPCs, one method each: from protobuf, wait, to protobuf. Errors are translated by the interceptor."""

from __future__ import annotations

from collections.abc import AsyncIterator

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.core import occlusion
from headlight_service.core.admission.permits import Permit
from headlight_service.core.model_registry import Models
from headlight_service.core.prepared_request import check_header, check_max_bytes, check_unary
from headlight_service.core.served_model import ServedModel
from headlight_service.frontends.grpc.answer_encoding import fill
from headlight_service.frontends.grpc.encode_stream import StreamCall
from headlight_service.frontends.grpc.reply_timeout import Sending
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.telemetry.request_trace import stage


class HeadlightServicer(pb_grpc.HeadlightServiceServicer):
    """headlight.v1.HeadlightService."""

    def __init__(self, models: Models, stall_seconds: float) -> None:
        """Nothing is served before `models` has one.

        Args:
            models: by name.
            stall_seconds: a caller who takes nothing of its answer for so long is cut.
        """
        self._models = models
        self._stall_seconds = stall_seconds
        self._streams: set[StreamCall] = set()
        self._sending: set[Sending] = set()
        self._draining = False

    async def Encode(self, request: pb.EncodeRequest, call: Call) -> pb.EncodeResponse:
        model, sending = self._models.get(request.model), Sending(call, self._sending)
        with model.receive(request.ByteSize()) as received:
            deadline = call.deadline
            prepared = await model.prepare(request, deadline)
            if request.dry_run:
                check_header(prepared, model.limits.max_unary_response_bytes)
                with model.hold_info(prepared.header.ByteSize()) as held:
                    self._leave_to(sending, model, received, held)
                return prepared.header
            check_max_bytes(prepared)
            check_unary(prepared, model.limits.max_unary_response_bytes)
            with model.hold_output(prepared) as held:
                results = await model.compute(prepared, deadline, held)
                fill(prepared.header, results, prepared.selection.vector)
                model.finish(prepared)
                self._leave_to(sending, model, received, held)
        return prepared.header

    async def EncodeStream(self, requests: AsyncIterator[pb.EncodeStreamRequest], call: Call) -> None:
        sending, limits = Sending(call, self._sending), self._models.limits
        stream = StreamCall(self._models, limits, call, self._stall_seconds, sending)
        if self._draining:
            stream.drain()
        self._streams.add(stream)
        try:
            await stream.serve(requests)
        finally:
            self._streams.discard(stream)
            sending.linger(self._stall_seconds)

    async def Tokenize(self, request: pb.TokenizeRequest, call: Call) -> bytes:
        model, sending = self._models.get(request.model), Sending(call, self._sending)
        with model.receive(request.ByteSize()) as received:
            response = await model.tokenize(request)
            with model.hold_info(len(response)) as held:
                self._leave_to(sending, model, received, held)
        return response

    async def Occlude(self, request: pb.OccludeRequest, call: Call) -> pb.OccludeResponse:
        model, sending = self._models.get(request.model), Sending(call, self._sending)
        with model.receive(request.ByteSize()) as received:
            deadline = call.deadline
            wanted = await occlusion.prepare(model, request, deadline)
            with model.hold_info(wanted.response.ByteSize(), "input") as held:
                await occlusion.compute(model, wanted, deadline)
                self._leave_to(sending, model, received, held)
        return wanted.response

    async def GetModel(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        model = self._models.get(request.model)
        self._leave_to(Sending(call, self._sending), model)
        return model.description

    def _leave_to(self, sending: Sending, model: ServedModel, *permits: Permit) -> None:
        """The answer is ready: what it takes is held until it has been sent, for which the caller has only so long."""
        stage("reply")
        size = permits[-1].amount if permits else 0
        sending.limit(self._stall_seconds, size, model.stalled)
        for permit in permits:
            sending.hold(permit.split(permit.amount))

    def drain(self) -> None:
        """Let every stream end once it has answered what it has read."""
        self._draining = True
        for call in self._streams:
            call.drain()
