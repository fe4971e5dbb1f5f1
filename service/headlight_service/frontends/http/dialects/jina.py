"""Jina's vectors of tokens, matched one by one, for Jina's clients and Weaviate's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.refusals import Edge
from headlight.spec import VECTOR_BITS, MultiVectorSpec, VectorType
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, OutputSpec, Request
from headlight_service.frontends.http.dialects.fields import (
    FOR_ALL,
    ROLES,
    check_applied,
    check_width,
    object_texts,
    optional,
    reading_of,
    requested_model,
)
from headlight_service.frontends.http.dialects.rerank import encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.json_answers import (
    BYTE,
    DECIMAL,
    JsonForm,
    base64_of,
    lists_of,
)

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "jina"
EDGE = Edge(
    {Phrase.TRUNCATE_BY: f"as truncate: true; {FOR_ALL}"},
    {
        "inputs": "input",
        "inputs[*]": "input[{}]",
        "outputs.multi_vector": "input",
        "outputs.multi_vector.dtype": "embedding_type",
    },
)
TYPES: Mapping[str, VectorType] = {
    "float": "float32",
    "base64": "float32",
    "binary": "binary",
    "ubinary": "ubinary",
}
EXPANSIONS = {"float": DECIMAL, "binary": BYTE, "ubinary": BYTE}
FLOAT_BYTES = 4
OUTPUTS = {
    dtype: OutputSpec(pooled=False, multi_vector=MultiVectorSpec(dtype=dtype))
    for dtype in VECTOR_BITS
}
# Values of other options that change nothing.
APPLIED: Mapping[str, tuple[Any, ...]] = {
    "late_chunking": (False,),
    "normalized": (True,),
    "return_multivector": (True,),
    "task": (),
}


class _Matching(NamedTuple):
    """A decoded request; `form`: the type of the numbers, among TYPES."""

    model: ServedModel
    request: Request
    form: str


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [Route("POST", "/v1/multi-vector", _multi_vector)]


async def _multi_vector(exchange: Exchange) -> Response:
    matching = await exchange.decoded(_request)
    width = matching.model.description.multi_vector_dim
    form = JsonForm(matching.model.limits, expansion(matching.form, width))
    answer = await exchange.submit(matching.request, form)
    return await exchange.encoded(lambda: _list(matching, answer), form.size)


def expansion(form: str, width: int) -> float:
    """Return the most bytes sent for each byte of vectors of a width."""
    if form != "base64":
        return EXPANSIONS[form]
    size = FLOAT_BYTES * width  # each vector is a text of its own, with quotes and a comma
    return (4 * -(-size // 3) + 3) / size


def _request(exchange: Exchange, body: dict[str, Any]) -> _Matching:
    model = requested_model(exchange, body, "multi_vector")
    with counted(model):
        model.check_gives("multi_vector", "model")
        check_applied(body, APPLIED)
        check_width(body, model.description.multi_vector_dim)
        field = "embedding_type" if body.get("embedding_type") is not None else "encoding_format"
        form = optional(body, field, str, Phrase.TEXT) or "float"
        if form not in TYPES:
            raise InvalidInput(field, Reason.MUST_BE_ONE_OF, names=", ".join(TYPES))
        if body.get("input") is None:
            raise InvalidInput("input", Reason.MISSING_INPUT)
        value = body["input"] if isinstance(body["input"], list) else [body["input"]]
        inputs: list[Input] = [*object_texts(value, "input", model)]
        name = optional(body, "input_type", str, Phrase.TEXT)
        reading = reading_of(name, "input_type", model, ROLES)
        cut = optional(body, "truncate", bool, Phrase.TRUE_OR_FALSE)
        request = Request(
            inputs,
            OUTPUTS[TYPES[form]],
            model.key,
            prompt_name=reading.prompt_name,
            truncation=None if cut is None else "cut_end" if cut else "refuse",
            role=reading.role or "document",
        )
    return _Matching(model, request, form)


def _list(matching: _Matching, answer: Answer) -> Response:
    tokens = answer.prepared.tokens
    rows = answer.arrays("multi_vector")["multi_vector"]
    as_text = matching.form == "base64"
    return json_response(
        {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embeddings": [*map(base64_of, row)] if as_text else lists_of(row),
                }
                for index, row in enumerate(rows)
            ],
            "model": matching.model.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )
