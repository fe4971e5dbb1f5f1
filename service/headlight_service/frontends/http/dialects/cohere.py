"""Cohere's vectors of texts, in one type or several; `ranked_documents` has its ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.refusals import Edge
from headlight.spec import VECTOR_BITS, InputRole, VectorType
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, Request
from headlight_service.frontends.http.dialects.fields import (
    check_applied,
    check_length,
    optional,
    outputs_of,
    reading_of,
    requested_model,
    truncation_in,
    width_warnings,
)
from headlight_service.frontends.http.dialects.rerank import encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.json_answers import (
    BASE64,
    BYTE,
    DECIMAL,
    JsonForm,
    base64_of,
    lists_of,
)

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "cohere"
EDGE = Edge(
    names={
        "texts[*]": "texts[{}]",
        "inputs[*]": "inputs[{}]",
        "outputs.pooled": "model",
        "outputs.pooled.dimensions": "output_dimension",
        "outputs.pooled.dtypes": "embedding_types",
    }
)
INPUT_TYPES: Mapping[str, InputRole | None] = {
    "search_query": "query",
    "search_document": "document",
    "classification": None,
    "clustering": None,
}


class Type(NamedTuple):
    """A type of numbers.

    Attributes:
        dtype: from which it is made.
        expansion: bytes sent for each byte of that.
        shown: returns vectors as JSON.
    """

    dtype: VectorType
    expansion: float
    shown: Callable[[NDArray[Any]], Any]


TYPES: Mapping[str, Type] = {
    "float": Type("float32", DECIMAL, lists_of),
    "int8": Type("int8", BYTE, lists_of),
    # As sentence-transformers has them: 128 above int8.
    "uint8": Type("int8", BYTE, lambda vectors: lists_of((vectors ^ -128).view(np.uint8))),
    "binary": Type("binary", BYTE, lists_of),
    "ubinary": Type("ubinary", BYTE, lists_of),
    "base64": Type("float32", BASE64, lambda vectors: [*map(base64_of, vectors)]),
}


class _Embedding(NamedTuple):
    """A decoded request.

    Attributes:
        texts: its texts.
        field: that has them, "texts" or "inputs".
        types: of the answer, among TYPES.
        width: of the vectors.
        by_type: whether the answer has vectors by type, else one list of floats.
    """

    model: ServedModel
    request: Request
    texts: list[str]
    field: str
    types: tuple[str, ...]
    width: int
    by_type: bool


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [Route("POST", f"/v{version}/embed", _embed) for version in (1, 2)]


async def _embed(exchange: Exchange) -> Response:
    embedding = await exchange.decoded(_request)
    dtypes = _dtypes(embedding.types)
    sent = sum(VECTOR_BITS[TYPES[each].dtype] * TYPES[each].expansion for each in embedding.types)
    expansion = sent / sum(VECTOR_BITS[dtype] for dtype in dtypes)
    form = JsonForm(embedding.model.limits, expansion, beside_bytes=len(exchange.body))
    with renamed({("inputs",): (embedding.field,)}):
        answer = await exchange.submit(embedding.request, form)
    return await exchange.encoded(lambda: _response(exchange, embedding, answer), form.size)


def _request(exchange: Exchange, body: dict[str, Any]) -> _Embedding:
    model = requested_model(exchange, body, "embed")
    with counted(model):
        check_applied(body, {"images": ([],)})
        field, texts = _texts(body, model)
        types = _types(body)
        width = optional(body, "output_dimension", int, Phrase.WHOLE)
        check_length(body, "max_tokens", model)
        name = optional(body, "input_type", str, Phrase.TEXT)
        reading = reading_of(name, "input_type", model, INPUT_TYPES)
        inputs: list[Input] = [*texts]
        request = Request(
            inputs,
            outputs_of(width, dtypes=_dtypes(types or ("float",))),
            model.key,
            prompt_name=reading.prompt_name,
            truncation=truncation_in(body) or "cut_end",
            role=reading.role,
        )
        return _Embedding(
            model,
            request,
            texts,
            field,
            types or ("float",),
            model.description.pooled_dim if width is None else width,
            by_type=bool(types) or exchange.path != "/v1/embed",
        )


def _dtypes(types: Sequence[str]) -> tuple[VectorType, ...]:
    """Return the types of the core from which these are made, each once."""
    return tuple(dict.fromkeys(TYPES[each].dtype for each in types))


def _types(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the types that a body names, each once; none: it leaves them out."""
    names = optional(body, "embedding_types", list, Phrase.NAMES)
    if names == []:
        raise InvalidInput("embedding_types", Reason.NO_ENTRIES)
    for at, name in enumerate(names or ()):
        if type(name) is not str or name not in TYPES:
            field = f"embedding_types[{at}]"
            raise InvalidInput(field, Reason.MUST_BE_ONE_OF, names=", ".join(TYPES))
    return tuple(dict.fromkeys(names or ()))


def _texts(body: dict[str, Any], model: ServedModel) -> tuple[str, list[str]]:
    """Return the texts of a body, and the field that has them."""
    field = "inputs" if body.get("inputs") and not body.get("texts") else "texts"
    values = body.get(field)
    if not isinstance(values, list):
        kind = Phrase.TEXTS if field == "texts" else Phrase.A_LIST
        raise InvalidInput(field, Reason.MUST_BE, kind=kind)
    if not values:
        raise InvalidInput(field, Reason.NO_ENTRIES)
    if field == "texts":
        check_applied(body, {"inputs": ([],)})
    model.check_items(field, len(values))
    return field, [_text(f"{field}[{at}]", value) for at, value in enumerate(values)]


def _text(field: str, value: Any) -> str:
    match value:
        case str() if field.startswith("texts"):
            return value
        case {"content": [{"type": "text", "text": str(text)}]} if field.startswith("inputs"):
            return text
    kind = Phrase.TEXT if field.startswith("texts") else Phrase.TEXT_CONTENT
    raise InvalidInput(field, Reason.MUST_BE, kind=kind)


def _response(exchange: Exchange, embedding: _Embedding, answer: Answer) -> Response:
    arrays = dict(zip(_dtypes(embedding.types), answer.pooled(), strict=True))
    shown = {name: TYPES[name].shown(arrays[TYPES[name].dtype]) for name in embedding.types}
    tokens = {"input_tokens": answer.prepared.tokens}
    warnings = width_warnings(embedding.model, embedding.width, "output_dimension")
    return json_response(
        {
            "response_type": "embeddings_by_type" if embedding.by_type else "embeddings_floats",
            "id": exchange.request_id,
            "embeddings": shown if embedding.by_type else shown["float"],
            "texts": embedding.texts,
            "meta": {
                "api_version": {"version": "1" if exchange.path == "/v1/embed" else "2"},
                "billed_units": tokens,
                "tokens": tokens,
                **({"warnings": warnings} if warnings else {}),
            },
        }
    )
