"""GET /: the page, and health for who asks for JSON, as TEI has it."""

from __future__ import annotations

from headlight.web.live import LivePage, live_page
from headlight_service.frontends.http.dialects.openai import EDGE, encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "page"
HTML, JSON = "text/html", "application/json"
# The answer depends on it, also without the page.
VARY = (("vary", "accept"),)


def routes(door: Door) -> list[Route]:
    """Return the route, which needs no token: the page has no data before it asks for them."""
    options = door.options
    page = live_page(options.grpc_port) if options.page else None
    html = None if page is None else _html(page)

    async def home(exchange: Exchange) -> Response:
        accepted, serving = exchange.headers.get("accept", ""), exchange.door.serving()
        # A balancer's check names no type, and must see that the service does not serve.
        if html is not None and (HTML in accepted or (serving and JSON not in accepted)):
            return html
        return Response(status=200 if serving else 503, headers=VARY)

    return [Route("GET", "/", home, public=True)]


def _html(page: LivePage) -> Response:
    headers = (
        ("content-security-policy", page.policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),  # the next version of the service has another page
        *VARY,
    )
    return Response(page.html, content_type=f"{HTML}; charset=utf-8", headers=headers)
