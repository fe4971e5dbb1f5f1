"""GET /docs: /openapi.json for people, by Swagger UI.

Its files come from the package `flask-swagger-ui`, none of whose code is imported.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from headlight.extras import remedy
from headlight_service.frontends.http.dialects.openai import EDGE, encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route
from headlight_service.frontends.http.http_status import http_error

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

log = logging.getLogger(__name__)

PROTOCOL = "page"
PACKAGE = "flask_swagger_ui"
FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
START_FILE = "start.js"
# Nothing is sent to the public validator, and a token that is typed in is not stored.
START = b"""\
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  validatorUrl: null,
  persistAuthorization: false,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
});
"""
HTML = b"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headlight: HTTP APIs</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
# Swagger UI sets styles of elements by script, which needs no leave, and has images in its style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-cache"),
)


def routes(door: Door) -> list[Route]:
    """Return the routes, which need no token: the document is public, too."""
    files = _files()
    not_installed = f"the viewer of /openapi.json is not installed: {remedy('docs')}"

    async def page(exchange: Exchange) -> Response:
        if not files:
            raise http_error(404, not_installed, reason="path")
        return _response(HTML, "text/html")

    async def file(exchange: Exchange) -> Response:
        if not files:
            raise http_error(404, not_installed, reason="path")
        if exchange.rest not in files:
            raise http_error(404, "there is no such file; GET /docs is the page", reason="path")
        return files[exchange.rest]

    return [
        Route("GET", "/docs", page, public=True),
        Route("GET", "/docs/*", file, public=True),
    ]


def _files() -> dict[str, Response]:
    """Return the viewer's files, by name; none if it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent / "dist"
    try:
        files = {
            name: _response((folder / name).read_bytes(), kind) for name, kind in FILES.items()
        }
    except OSError as error:  # of a version with other files
        log.warning(
            f"GET /docs has no viewer: {error}; {remedy('docs')} may help",
            extra={"event": "viewer_missing"},
        )
        return {}
    return {**files, START_FILE: _response(START, "text/javascript")}


def _response(body: bytes, kind: str) -> Response:
    return Response(body, content_type=f"{kind}; charset=utf-8", headers=HEADERS)
