"""Servicer of the Open Inference Protocol v2: decode, submit, wait, encode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.grpc.calls.request_stream import OpenStreams
from headlight_service.frontends.grpc.grpc_status import NotServed
from headlight_service.frontends.grpc.peer_timeouts import Replies
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.oip import inference_messages as oip


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

    def __getattr__(self, name: str) -> Any:
        def unserved(request: object, call: Call) -> None:
            raise NotServed(f"{name} is not served")

        if name.startswith("__"):
            raise AttributeError(name)
        return unserved

    def ServerLive(self, request: oip.ServerLiveRequest, call: Call) -> oip.ServerLiveResponse:
        return oip.ServerLiveResponse(live=True)

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._streams.drain()
