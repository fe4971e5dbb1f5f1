"""Headlight's contract as JSON: POST /v1/encode, /v1/compare and others, GET /v1/model.

The messages of headlight.v1. Where answers have tensors, requests have one member more: `encoding`,
of their numbers. Rerank is /v1/rank: /v1/rerank has the form of other tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson
from google.protobuf.message import Message

from headlight.errors import renamed
from headlight.interface.scoring import pair_names
from headlight.pb import headlight_pb2 as pb
from headlight.refusals import CONTRACT
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.request import (
    ComparisonRequest,
    OcclusionRequest,
    Request,
)
from headlight_service.frontends.contract.comparison_decoding import decode_compare
from headlight_service.frontends.contract.comparison_forms import JsonCompareForm
from headlight_service.frontends.contract.json_answer_forms import (
    ENCODING,
    JsonEncodeForm,
    JsonOccludeForm,
    number_encoding,
)
from headlight_service.frontends.contract.json_decoding import LONGEST_LIST, message_of
from headlight_service.frontends.contract.json_encoding import json_value
from headlight_service.frontends.contract.model_description import describe
from headlight_service.frontends.contract.request_decoding import decode_encode, decode_occlude
from headlight_service.frontends.contract.score_forms import LabelsForm, RanksForm
from headlight_service.frontends.contract.scoring_decoding import decode_classify, decode_rerank
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import ErrorResponse
from headlight_service.frontends.scoring import LABELLING

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Request)
PROTOCOL = "json"
EDGE = CONTRACT
OPENAPI = Path(__file__).parent.parent / "openapi.json"
# Names of the gRPC statuses, by the HTTP status.
CODES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    415: "INVALID_ARGUMENT",
    421: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    431: "INVALID_ARGUMENT",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def routes(door: Door) -> list[Route]:
    """Return the routes of the contract, and of the document that describes them."""
    document = Response(OPENAPI.read_bytes())

    async def openapi(exchange: Exchange) -> Response:
        return document

    return [
        Route("POST", "/v1/encode", _encode),
        Route("POST", "/v1/compare", _compare),
        Route("POST", "/v1/occlude", _occlude),
        Route("POST", "/v1/rank", _rank),
        Route("POST", "/v1/classify", _classify),
        Route("GET", "/v1/model", _model),
        Route("GET", "/openapi.json", openapi, public=True),
    ]


def encode_error(refusal: ErrorResponse) -> Response:
    """Return a failure in the contract's terms: those of its Status."""
    error = {
        "code": CODES.get(refusal.status, "INTERNAL"),
        "status": refusal.status,
        "message": refusal.message,
        "field": refusal.field or None,
        "reason": refusal.reason.upper(),
        "metadata": dict(refusal.metadata),
        "retry_after_ms": refusal.retry_after_ms,
        "request_id": refusal.request_id,
    }
    return json_response({"error": error}, refusal.status)


async def _encode(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_encode_request)
    answer = await exchange.submit(request, form)
    return await exchange.encoded(lambda: Response(form.encode(answer)), answer.prepared.data_bytes)


def _encode_request(exchange: Exchange, body: dict[str, Any]) -> tuple[Request, JsonEncodeForm]:
    encoding = number_encoding(body.pop(ENCODING, None))
    request, message, _ = _decoded(pb.EncodeRequest, decode_encode, exchange, body)
    most = _largest(exchange)
    return request, JsonEncodeForm(encoding, most, dry_run=message.dry_run)


async def _compare(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_compare_request)
    answer = await exchange.submit(request, form)
    return await exchange.encoded(lambda: Response(form.encode(answer)), form.size)


def _compare_request(
    exchange: Exchange, body: dict[str, Any]
) -> tuple[ComparisonRequest, JsonCompareForm]:
    encoding = number_encoding(body.pop(ENCODING, None))
    request, message, _ = _decoded(pb.CompareRequest, decode_compare, exchange, body)
    most = _largest(exchange)
    return request, JsonCompareForm(encoding, most, dry_run=message.dry_run)


async def _occlude(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_occlude_request)
    answer = await exchange.submit(request, form)
    return await exchange.encoded(lambda: Response(form.encode(answer)), answer.prepared.data_bytes)


def _occlude_request(
    exchange: Exchange, body: dict[str, Any]
) -> tuple[OcclusionRequest, JsonOccludeForm]:
    encoding = number_encoding(body.pop(ENCODING, None))
    request, _, _ = _decoded(pb.OccludeRequest, decode_occlude, exchange, body)
    return request, JsonOccludeForm(encoding, target=request.has_target)


async def _rank(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_rank_request)
    with renamed(pair_names(len(request.inputs))):
        answer = await exchange.submit(request, form)
    return await exchange.encoded(lambda: Response(form.encode(answer)), form.size)


def _rank_request(exchange: Exchange, body: dict[str, Any]) -> tuple[Request, RanksForm]:
    request, message, model = _decoded(pb.RerankRequest, decode_rerank, exchange, body, "rerank")
    return request, RanksForm(message, model, _largest(exchange), as_json=True)


async def _classify(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_classify_request)
    answer = await exchange.submit(request, form)
    return await exchange.encoded(lambda: Response(form.encode(answer)), form.size)


def _classify_request(exchange: Exchange, body: dict[str, Any]) -> tuple[Request, LabelsForm]:
    request, message, model = _decoded(
        pb.ClassifyRequest, decode_classify, exchange, body, *LABELLING
    )
    return request, LabelsForm(message, model, _largest(exchange), as_json=True)


async def _model(exchange: Exchange) -> Response:
    models = exchange.door.pipeline.models
    model = models.get(exchange.query.get("model", ""))
    return Response(orjson.dumps(json_value(describe(model, models))))


def _decoded(
    kind: type[M],
    decode: Callable[[M, ServedModel, float, str], R],
    exchange: Exchange,
    body: dict[str, Any],
    *tasks: str,
) -> tuple[R, M, ServedModel]:
    """Return the request of a body, its message and its model.

    A body without a model gets the default one of these tasks.
    """
    models = exchange.door.pipeline.models
    message: Any = message_of(kind, body, max(LONGEST_LIST, models.limits.max_items))
    model = models.get(message.model, *tasks)
    with counted(model):
        request = decode(message, model, exchange.deadline, exchange.client)
    request.size_bytes = len(exchange.body)
    return request, message, model


def _largest(exchange: Exchange) -> int:
    """Return the bytes of the largest answer; all models share them."""
    return largest_output(exchange.door.pipeline.models.get().admission.outputs.limit)
