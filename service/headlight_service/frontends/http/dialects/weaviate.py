"""Weaviate's container of transformers models, for its module text2vec-transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.refusals import CONTRACT, Path
from headlight.spec import InputRole
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, Request
from headlight_service.frontends.http.dialects.fields import optional, outputs_of, reading_of
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import ErrorResponse
from headlight_service.frontends.http.json_answers import JsonForm, lists_of

PROTOCOL = "weaviate"
EDGE = CONTRACT
TASKS: Mapping[str, InputRole | None] = {"query": "query", "passage": "document"}
POOLING = {"masked_mean": "mean"}  # Weaviate's names of poolings that have another one here


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [
        Route("POST", "/vectors", _vectors),
        Route("GET", "/meta", _meta),
        Route("GET", "/.well-known/live", _live),
        Route("GET", "/.well-known/ready", _ready),
    ]


def encode_error(refusal: ErrorResponse) -> Response:
    """Return an error in Weaviate's form; it shows the message to its own clients."""
    return json_response({"error": refusal.message}, refusal.status)


async def _vectors(exchange: Exchange) -> Response:
    model, request, several = await exchange.decoded(_request)
    names: dict[Path, Path] = {("inputs",): ("texts",)}
    for at in range(len(request.inputs)):
        names["inputs", at, "text"] = ("texts", at) if several else ("text",)
    with renamed(names):
        answer = await exchange.submit(request, JsonForm(model.limits))
    return await exchange.encoded(
        lambda: _vectors_of(answer, request.inputs, several), answer.prepared.data_bytes
    )


def _request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request, bool]:
    """Return the model, the request, and whether it is one of several texts."""
    model = exchange.door.pipeline.models.get("", "embed")
    texts = body.get("texts")
    several = texts is not None
    with counted(model):
        inputs = _texts(texts if several else [body.get("text")], several)
        if several:
            model.check_items("texts", len(inputs))
        config = optional(body, "config", dict, Phrase.OBJECT) or {}
        _check_pooling(config, model)
        dimensions = optional(config, "dimensions", int, Phrase.WHOLE)
        task = optional(config, "task_type", str, Phrase.TEXT)
        reading = reading_of(task, "config.task_type", model, TASKS)
        request = Request(
            inputs,
            outputs_of(dimensions),
            model.key,
            prompt_name=reading.prompt_name,
            role=reading.role,
        )
    return model, request, several


def _vectors_of(answer: Answer, inputs: list[Input], several: bool) -> Response:
    [vectors] = answer.pooled()
    width = vectors.shape[1]
    if several:
        return json_response({"vectors": lists_of(vectors), "dims": width})
    vector = lists_of(vectors[0])
    return json_response({"text": inputs[0], "vector": vector, "dim": width, "dims": width})


async def _meta(exchange: Exchange) -> Response:
    model = exchange.door.pipeline.models.get("", "embed")
    return json_response(
        {
            "model": model.name,
            "version": model.ref.version,
            "sha256": model.ref.bundle_sha256,
            "max_length": model.max_length,
            "pooling": model.runtime.bundle.manifest.pooling,
        }
    )


async def _live(exchange: Exchange) -> Response:
    return Response(status=204)


async def _ready(exchange: Exchange) -> Response:
    return Response(status=204 if exchange.door.serving() else 503)


def _texts(values: Any, several: bool) -> list[Input]:
    name = "texts" if several else "text"
    if not isinstance(values, list) or not all(type(each) is str for each in values):
        raise InvalidInput(name, Reason.MUST_BE, kind=Phrase.TEXTS if several else Phrase.TEXT)
    return values


def _check_pooling(config: dict[str, Any], model: ServedModel) -> None:
    requested = optional(config, "pooling_strategy", str, Phrase.TEXT)
    pooling = model.runtime.bundle.manifest.pooling
    if requested and POOLING.get(requested, requested) != pooling:
        names = [name for name, ours in POOLING.items() if ours == pooling] or [pooling]
        raise InvalidInput(
            "config.pooling_strategy", Reason.OTHER_POOLING, pooling=pooling, name=names[0]
        )
