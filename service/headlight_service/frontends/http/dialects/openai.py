"""OpenAI's embeddings and models, for its SDKs and all that is built on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlight.errors import Code, InvalidInput, Phrase, Reason
from headlight.refusals import Edge
from headlight.spec import InputRole
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, Request
from headlight_service.frontends.http.dialects.fields import (
    encoding_format,
    optional,
    outputs_of,
    reading_of,
    requested_model,
    role_in,
    truncation_in,
    width_warnings,
)
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import ErrorResponse
from headlight_service.frontends.http.json_answers import (
    BASE64,
    DECIMAL,
    JsonForm,
    base64_of,
    lists_of,
)

PROTOCOL = "openai"
TYPES = {401: "invalid_request_error", 429: "rate_limit_error"}  # else by the status's class
CODES = {Code.UNAUTHENTICATED: "invalid_api_key", Code.NOT_FOUND: "model_not_found"}
CODES_BY_STATUS = {429: "rate_limit_exceeded", 504: "timeout"}
# Of Jina: what its models are asked to tell apart, as roles.
TASKS: Mapping[str, InputRole | None] = {
    "retrieval.query": "query",
    "retrieval.passage": "document",
    "text-matching": None,
    "classification": None,
    "separation": None,
    "clustering": None,
}
EDGE = Edge(
    names={
        "inputs": "input",
        "inputs[*]": "input[{}]",
        "outputs.pooled.dimensions": "dimensions",
    }
)


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [
        Route("POST", "/v1/embeddings", _embeddings),
        Route("GET", "/v1/models", _models),
        Route("GET", "/v1/models/*", _model),
    ]


def encode_error(refusal: ErrorResponse) -> Response:
    """Return an error in OpenAI's form, with TEI's beside it."""
    return json_response(error_fields(refusal), refusal.status)


def error_fields(refusal: ErrorResponse) -> dict[str, Any]:
    """Return the body of an error.

    Both SDKs read `error`; Milvus' client reads the top-level `message`.
    """
    message = refusal.message
    kind = TYPES.get(refusal.status) or (
        "server_error" if refusal.status >= 500 else "invalid_request_error"
    )
    code = CODES_BY_STATUS.get(refusal.status)
    if refusal.code is not None:
        code = CODES.get(refusal.code, code)
    param = "model" if code == "model_not_found" else refusal.field.partition("[")[0] or None
    error = {"message": message, "type": kind, "param": param, "code": code}
    return {"error": error, "message": message, "code": refusal.status, "type": kind}


def decode_inputs(value: Any, model: ServedModel) -> list[Input]:
    """Return the texts of `input`. Raises InvalidInput."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise InvalidInput("input", Reason.MUST_BE, kind=Phrase.TEXT_OR_TEXTS)
    if not value:
        raise InvalidInput("input", Reason.EMPTY_LIST)
    if all(type(each) is str for each in value):
        model.check_items("input", len(value))
        return value
    at, wrong = next((at, each) for at, each in enumerate(value) if not isinstance(each, str))
    first = wrong[0] if isinstance(wrong, list) and wrong else wrong
    if at == 0 and type(first) is int:
        raise InvalidInput("input", Reason.IDS_NOT_TAKEN)
    if isinstance(wrong, list):
        raise InvalidInput(f"input[{at}]", Reason.NESTED_LIST)
    raise InvalidInput(f"input[{at}]", Reason.TEXTS_ALONE)


def model_entry(name: str) -> dict[str, Any]:
    """Return a model as its list shows it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "headlight"}


async def _embeddings(exchange: Exchange) -> Response:
    model, request, form = await exchange.decoded(_request)
    expansion = BASE64 if form == "base64" else DECIMAL
    answer = await exchange.submit(request, JsonForm(model.limits, expansion))
    return await exchange.encoded(lambda: _list(model, answer, form), answer.prepared.data_bytes)


def _request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request, str]:
    """Return the model, the request and the form of the vectors."""
    model = requested_model(exchange, body, "embed")
    with counted(model):
        form = encoding_format(body)
        if "input" not in body:
            raise InvalidInput("input", Reason.MISSING_INPUT)
        dimensions = optional(body, "dimensions", int, Phrase.WHOLE)
        name = optional(body, "task", str, Phrase.TEXT)
        reading = reading_of(name, "task", model, TASKS)
        request = Request(
            decode_inputs(body["input"], model),
            outputs_of(dimensions),
            model.key,
            prompt_name=optional(body, "prompt_name", str, Phrase.TEXT) or reading.prompt_name,
            truncation=truncation_in(body),
            role=role_in(body) or reading.role,
        )
    return model, request, form


def _list(model: ServedModel, answer: Answer, form: str) -> Response:
    [vectors] = answer.pooled()
    shown = base64_of if form == "base64" else lists_of
    tokens = answer.prepared.tokens
    warnings = width_warnings(model, vectors.shape[1])
    return json_response(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": shown(row)}
                for index, row in enumerate(vectors)
            ],
            "model": model.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            **({"warnings": warnings} if warnings else {}),
        }
    )


async def _models(exchange: Exchange) -> Response:
    names = exchange.door.pipeline.models.by_name
    return json_response({"object": "list", "data": [model_entry(name) for name in names]})


async def _model(exchange: Exchange) -> Response:
    exchange.door.pipeline.models.get(exchange.rest)
    return json_response(model_entry(exchange.rest))
