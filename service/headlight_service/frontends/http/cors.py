"""Cross-origin requests (CORS): answers that pages of the allowed origins may read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headlight_service.frontends.http.exchange import Response
from headlight_service.frontends.http.http_status import Headers, http_error

ANY = "*"
PREFLIGHT_SECONDS = 600
# Of requests. The wildcard does not include this one.
ALLOWED_HEADERS = "authorization, *"
EXPOSED = (
    "retry-after, retry-after-ms, x-compute-characters, x-compute-tokens, x-compute-type, "
    "x-inference-time, x-queue-time, x-request-id, x-should-retry, x-tokenization-time, "
    "x-total-time"
)


def is_allowed(request: Mapping[str, str], origins: frozenset[str]) -> bool:
    """Return whether a request names an allowed origin."""
    origin = request.get("origin")
    return origin is not None and (ANY in origins or origin.lower() in origins)


def is_preflight(request: Mapping[str, str]) -> bool:
    """Return whether an OPTIONS request is a browser's question about another request."""
    return "origin" in request and "access-control-request-method" in request


def headers(request: Mapping[str, str], origins: frozenset[str]) -> Headers:
    """Return the headers of every answer to a request, a refusal included."""
    if not origins:
        return ()
    vary: Headers = () if ANY in origins else (("vary", "origin"),)
    if not is_allowed(request, origins):
        return vary
    allowed = ANY if ANY in origins else request["origin"]
    return (
        ("access-control-allow-origin", allowed),
        ("access-control-expose-headers", EXPOSED),
        *vary,
    )


def preflight(
    request: Mapping[str, str], origins: frozenset[str], methods: Iterable[str]
) -> Response:
    """Return the answer to a preflight, which `headers` completes.

    Args:
        request: its headers.
        origins: the allowed ones.
        methods: those of the path.

    Raises:
        HttpError: with 403; the origin is not allowed.
    """
    if not is_allowed(request, origins):
        raise http_error(
            403, "the origin of this page is not allowed; name it by --cors-origins", field="origin"
        )
    return Response(
        status=204,
        headers=(
            ("access-control-allow-methods", ", ".join(sorted(methods))),
            ("access-control-allow-headers", ALLOWED_HEADERS),
            ("access-control-max-age", str(PREFLIGHT_SECONDS)),
        ),
    )
