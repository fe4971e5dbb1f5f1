"""OpenAI's embeddings and models, for its SDKs and all that is built on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlight.errors import Code, InvalidInput, Phrase, Reason
from headlight.refusals import Edge
from headlight.runtime.tokenization.input_checks import Truncation
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, Request
from headlight_service.frontends.http.dialects.fields import (
    optional,
    outputs_of,
    requested_model,
)
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import Refusal
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
TRUNCATE: Mapping[str, Truncation] = {
    "none": "refuse",
    "start": "cut_start",
    "end": "cut_end",
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


def encode_error(refusal: Refusal) -> Response:
    """Return an error in OpenAI's form, with TEI's beside it."""
    return json_response(error_fields(refusal), refusal.status)


def error_fields(refusal: Refusal) -> dict[str, Any]:
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
        form = optional(body, "encoding_format", str, Phrase.FLOAT_OR_BASE64) or "float"
        if form not in ("float", "base64"):
            raise InvalidInput("encoding_format", Reason.MUST_BE, kind=Phrase.FLOAT_OR_BASE64)
        if "input" not in body:
            raise InvalidInput("input", Reason.MISSING_INPUT)
        dimensions = optional(body, "dimensions", int, Phrase.WHOLE)
        request = Request(
            decode_inputs(body["input"], model),
            outputs_of(dimensions),
            model.key,
            prompt_name=optional(body, "prompt_name", str, Phrase.TEXT),
            truncation=_truncation(optional(body, "truncate", str, Phrase.ENDS)),
        )
    return model, request, form


def _truncation(name: str | None) -> Truncation | None:
    if name is not None and name.lower() not in TRUNCATE:
        raise InvalidInput("truncate", Reason.MUST_BE_ONE_OF, names=", ".join(TRUNCATE))
    return None if name is None else TRUNCATE[name.lower()]


def _list(model: ServedModel, answer: Answer, form: str) -> Response:
    [vectors] = answer.pooled()
    shown = base64_of if form == "base64" else lists_of
    tokens = answer.prepared.tokens
    warnings = _warnings(model, vectors.shape[1])
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


def _warnings(model: ServedModel, width: int) -> list[str]:
    """Return a warning if vectors were cut to a width that the model was not trained for."""
    manifest = model.runtime.bundle.manifest
    whole, trained = manifest.architecture.pooled_dim, manifest.dimensions
    if width in (whole, *trained):
        return []
    widths = ", ".join(map(str, sorted({*trained, whole})))
    return [
        f"dimensions: {width} is not among the widths that this model was trained for, as far as "
        f"it says: {widths}; search with such vectors may find less"
    ]


async def _models(exchange: Exchange) -> Response:
    names = exchange.door.pipeline.models.by_name
    return json_response({"object": "list", "data": [model_entry(name) for name in names]})


async def _model(exchange: Exchange) -> Response:
    exchange.door.pipeline.models.get(exchange.rest)
    return json_response(model_entry(exchange.rest))
