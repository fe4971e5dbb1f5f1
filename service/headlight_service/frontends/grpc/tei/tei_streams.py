"""Streams of tei.v1: answers in the order of the requests; the first failure ends the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.grpc.calls.request_stream import Decoded, RequestStream
from headlight_service.frontends.grpc.grpc_status import ErrorStatus
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.grpc.tei.tei_decoding import (
    decode_embed,
    decode_predict,
    decode_tokenize,
    needs_of,
)
from headlight_service.frontends.scoring import LABELLING


class VectorStream(RequestStream[Message, Message]):
    """EmbedStream, EmbedAllStream or EmbedSparseStream."""

    ordered = True

    def decode(self, request: Any) -> Decoded[Message]:
        sparse = isinstance(request, pb.EmbedSparseRequest)
        model = self._pipeline.models.get("", *needs_of(request))
        decoded, form = decode_embed(request, model, self._call)
        response: type[Message] = pb.EmbedSparseResponse if sparse else pb.EmbedAllResponse
        if isinstance(request, pb.EmbedRequest):
            response = pb.EmbedResponse

        def messages(answer: Answer) -> Iterator[Message]:
            yield response.FromString(form.encode(answer))

        return Decoded(decoded, form, messages)

    def failed(self, request: Message, refused: ErrorStatus) -> None:
        return None


class LabelStream(RequestStream[Message, pb.PredictResponse]):
    """PredictStream or PredictPairStream."""

    ordered = True

    def decode(self, request: Any) -> Decoded[pb.PredictResponse]:
        decoded, form = decode_predict(
            request, self._pipeline.models.get("", *LABELLING), self._call
        )

        def messages(answer: Answer) -> Iterator[pb.PredictResponse]:
            yield pb.PredictResponse.FromString(form.encode(answer))

        return Decoded(decoded, form, messages)

    def failed(self, request: Message, refused: ErrorStatus) -> None:
        return None


class TokenStream(RequestStream[pb.EncodeRequest, pb.EncodeResponse]):
    """TokenizeStream. It has one request under way at a time: tokens need no engine."""

    ordered = True

    def decode(self, request: pb.EncodeRequest) -> Decoded[pb.EncodeResponse]:
        decoded, form = decode_tokenize(request, self._pipeline.models.get(), self._call)
        return Decoded(decoded, form, _tokens)

    def submit(
        self, decoded: Decoded[Any], trace: Any, when_queued: Callable[[], object] | None
    ) -> Handle[Any]:
        return self._pipeline.tokenize(decoded.request, decoded.form, trace=trace)

    def failed(self, request: pb.EncodeRequest, refused: ErrorStatus) -> None:
        return None


def _tokens(message: bytes) -> Iterator[pb.EncodeResponse]:
    yield pb.EncodeResponse.FromString(message)
