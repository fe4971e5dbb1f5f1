"""Servicer of the Open Inference Protocol v2. The interceptor maps errors to statuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NoReturn

from headlight import __version__
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.grpc.calls.request_stream import OpenStreams
from headlight_service.frontends.grpc.grpc_status import NotServed
from headlight_service.frontends.grpc.peer_timeouts import Replies
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.infer_decoding import decode_infer, edge_of
from headlight_service.frontends.oip.inference_stream import InferenceStream
from headlight_service.frontends.oip.model_views import configuration, metadata, view_of, views

EXTENSIONS = ("model_configuration", "schedule_policy", "binary_tensor_data", "parameters")
NO_LOADING = "models are not loaded and unloaded here; the admin service does, on its own address"
NO_STATISTICS = "statistics are metrics here: GET /metrics on the port of --metrics"
NO_SHARED_MEMORY = "shared memory is not served; send tensors in the message"
NO_SETTINGS = "options of the service set its log and its tracing; see headlight serve --help"


def _refuse(remedy: str) -> Callable[[object, oip.UnservedRequest, Call], NoReturn]:
    """Return a method that refuses every call."""

    def refuse(self: object, request: oip.UnservedRequest, call: Call) -> NoReturn:
        raise NotServed(remedy)

    return refuse


class InferenceServicer:
    """inference.GRPCInferenceService. Unary methods run on a call's thread, streams on the loop."""

    def __init__(
        self, pipeline: Pipeline, stall_seconds: float, is_ready: Callable[[], bool]
    ) -> None:
        """Use the running event loop.

        Args:
            pipeline: receives the requests.
            stall_seconds: reply timeout of a client that takes nothing of its answer.
            is_ready: returns whether requests are admitted.
        """
        self._pipeline = pipeline
        self._stall_seconds = stall_seconds
        self._is_ready = is_ready
        self._replies = Replies(stall_seconds)
        self._streams = OpenStreams(self._replies)

    def ServerLive(self, request: oip.ServerLiveRequest, call: Call) -> oip.ServerLiveResponse:
        return oip.ServerLiveResponse(live=True)

    def ServerReady(self, request: oip.ServerReadyRequest, call: Call) -> oip.ServerReadyResponse:
        return oip.ServerReadyResponse(ready=self._is_ready())

    def ModelReady(self, request: oip.ModelReadyRequest, call: Call) -> oip.ModelReadyResponse:
        view_of(self._pipeline.models, request.name, request.version)
        return oip.ModelReadyResponse(ready=self._is_ready())

    def ServerMetadata(
        self, request: oip.ServerMetadataRequest, call: Call
    ) -> oip.ServerMetadataResponse:
        return oip.ServerMetadataResponse(
            name="headlight", version=__version__, extensions=EXTENSIONS
        )

    def ModelMetadata(
        self, request: oip.ModelMetadataRequest, call: Call
    ) -> oip.ModelMetadataResponse:
        view = view_of(self._pipeline.models, request.name, request.version)
        self._replies.add(call)
        return metadata(view)

    def ModelConfig(self, request: oip.ModelConfigRequest, call: Call) -> oip.ModelConfigResponse:
        view = view_of(self._pipeline.models, request.name, request.version)
        self._replies.add(call)
        return oip.ModelConfigResponse(config=configuration(view))

    def ModelInfer(self, request: oip.ModelInferRequest, call: Call) -> bytes:
        call.edge = edge_of(request)
        infer = decode_infer(request, self._pipeline.models, call)
        handle = self._pipeline.submit(
            infer.request,
            infer.form,
            trace=call.trace,
            may_compute=True,
            on_disconnect=call.on_disconnect,
        )
        return self._replies.reply(
            call,
            infer.model,
            handle,
            lambda answer: infer.form.message(request.id, answer).SerializeToString(),
        )

    async def ModelStreamInfer(
        self, requests: AsyncIterator[oip.ModelInferRequest], call: Call
    ) -> None:
        stream = InferenceStream(self._pipeline, call, self._stall_seconds)
        await self._streams.serve(stream, requests, call)

    def RepositoryIndex(
        self, request: oip.RepositoryIndexRequest, call: Call
    ) -> oip.RepositoryIndexResponse:
        ready, response = self._is_ready(), oip.RepositoryIndexResponse()
        if ready or not request.ready:
            for view in views(self._pipeline.models):
                response.models.add(
                    name=view.name,
                    version=view.model.ref.version,
                    state="READY" if ready else "UNAVAILABLE",
                    reason="" if ready else "the service is starting, or shutting down",
                )
        return response

    RepositoryModelLoad = RepositoryModelUnload = _refuse(NO_LOADING)
    ModelStatistics = _refuse(NO_STATISTICS)
    SystemSharedMemoryStatus = _refuse(NO_SHARED_MEMORY)
    SystemSharedMemoryRegister = SystemSharedMemoryUnregister = SystemSharedMemoryStatus
    CudaSharedMemoryStatus = SystemSharedMemoryStatus
    CudaSharedMemoryRegister = CudaSharedMemoryUnregister = SystemSharedMemoryStatus
    TraceSetting = LogSettings = _refuse(NO_SETTINGS)

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._streams.drain()
