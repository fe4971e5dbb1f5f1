"""Health for load balancers and probes of other tools. Probes of the process are on --metrics."""

from __future__ import annotations

from headlight_service.frontends.http.dialects.openai import EDGE, encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "http"


def routes(door: Door) -> list[Route]:
    """Return the routes. GET / is the page's (`home_page.py`)."""
    return [
        Route("GET", "/health", _health, public=True),
        Route("GET", "/ping", _health, public=True),
    ]


async def _health(exchange: Exchange) -> Response:
    return Response(status=200 if exchange.door.serving() else 503)
