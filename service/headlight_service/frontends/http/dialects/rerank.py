"""Ranks of documents, for clients of Cohere, Jina, vLLM and OpenVINO Model Server."""

from __future__ import annotations

from headlight.refusals import CONTRACT
from headlight_service.frontends.http.dialects.openai import error_fields
from headlight_service.frontends.http.dialects.ranked_documents import decode
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import ErrorResponse

PROTOCOL = "rerank"
EDGE = CONTRACT


def routes(door: Door) -> list[Route]:
    """Return the routes. POST /rerank is TEI's, which takes such bodies, too."""
    return [Route("POST", f"/v{version}/rerank", _rerank) for version in (1, 2, 3)]


def encode_error(refusal: ErrorResponse) -> Response:
    """Return an error in OpenAI's form; Jina's clients read `detail`, Cohere's `message`."""
    fields = error_fields(refusal)
    return json_response({**fields, "detail": refusal.message}, refusal.status)


async def _rerank(exchange: Exchange) -> Response:
    ranking = await exchange.decoded(decode)
    return await ranking.respond(exchange)
