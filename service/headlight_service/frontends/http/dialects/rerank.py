"""Ranks of documents, for clients of Cohere, Jina, vLLM and OpenVINO Model Server."""

from __future__ import annotations

from headlight.refusals import CONTRACT
from headlight_service.frontends.http.dialects.openai import encode_error
from headlight_service.frontends.http.dialects.ranked_documents import decode
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "rerank"
EDGE = CONTRACT


def routes(door: Door) -> list[Route]:
    """Return the routes. POST /rerank is TEI's, which takes such bodies, too."""
    return [Route("POST", f"/v{version}/rerank", _rerank) for version in (1, 2, 3)]


async def _rerank(exchange: Exchange) -> Response:
    ranking = await exchange.decoded(decode)
    return await ranking.respond(exchange)
