"""EncodeStream: each request has an id, and is answered when it is ready, in any order."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from headlight.errors import InvalidInput, Reason
from headlight.pb import headlight_pb2 as pb
from headlight_service.core.models import counted
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.contract.answer_forms import StreamForm, frames
from headlight_service.frontends.contract.comparison_decoding import decode_compare
from headlight_service.frontends.contract.comparison_forms import (
    STREAM_COMPARISON_BYTES,
    CompareForm,
)
from headlight_service.frontends.contract.request_decoding import decode_encode
from headlight_service.frontends.grpc.calls.request_stream import Decoded, RequestStream
from headlight_service.frontends.grpc.grpc_status import ErrorStatus

MAX_ID_BYTES = 128
LAST_FRAMES = ("response", "end", "error", "comparison")  # of an answer


class EncodeStream(RequestStream[pb.EncodeStreamRequest, pb.EncodeStreamResponse]):
    """The server's side of one EncodeStream call."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._live: set[str] = set()  # ids of requests whose last frame is not yet sent

    def check(self, request: pb.EncodeStreamRequest) -> None:
        """Refuse an invalid id, and one that is in use."""
        if not 1 <= len(request.id.encode()) <= MAX_ID_BYTES:
            raise InvalidInput("id", Reason.ID_BYTES, most=MAX_ID_BYTES)
        if request.id in self._live:
            raise InvalidInput("id", Reason.ID_IN_USE)
        self._live.add(request.id)

    def decode(self, request: pb.EncodeStreamRequest) -> Decoded[pb.EncodeStreamResponse]:
        if request.HasField("compare"):
            return self._decode_compare(request)
        model = self._pipeline.models.get(request.encode.model)
        with counted(model):
            core_request = decode_encode(
                request.encode, model, self._call.deadline, self._call.client
            )
        core_request.size_bytes = request.ByteSize()
        form = StreamForm(model.limits, dry_run=request.encode.dry_run)
        return Decoded(core_request, form, functools.partial(_frames, request.id, form))

    def _decode_compare(self, request: pb.EncodeStreamRequest) -> Decoded[pb.EncodeStreamResponse]:
        if request.HasField("encode"):
            raise InvalidInput("compare", Reason.SET_TWICE, other="encode")
        model = self._pipeline.models.get(request.compare.model)
        with counted(model):
            core_request = decode_compare(
                request.compare, model, self._call.deadline, self._call.client
            )
        core_request.size_bytes = request.ByteSize()
        form = CompareForm(STREAM_COMPARISON_BYTES, dry_run=request.compare.dry_run)
        messages = functools.partial(_comparison, request.id)
        return Decoded(core_request, form, messages, encode=form.message)

    def failed(
        self, request: pb.EncodeStreamRequest, refused: ErrorStatus
    ) -> pb.EncodeStreamResponse:
        return pb.EncodeStreamResponse(id=request.id, error=refused.frame)

    def on_write(self, message: pb.EncodeStreamResponse) -> None:
        """Free the id of a last frame. It may be reused as soon as the client has the frame."""
        if message.WhichOneof("frame") in LAST_FRAMES:
            self._live.discard(message.id)


def _comparison(request_id: str, answer: pb.CompareResponse) -> Iterator[pb.EncodeStreamResponse]:
    yield pb.EncodeStreamResponse(id=request_id, comparison=answer)


def _frames(request_id: str, form: StreamForm, answer: Answer) -> Iterator[pb.EncodeStreamResponse]:
    return frames(request_id, form.header, answer)
