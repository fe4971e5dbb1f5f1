"""Plain HTTP beside gRPC, for Prometheus and probes: a table of paths."""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headlight_service.app.http_listener import Listener
from headlight_service.config.option_types import Address
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.app.operational_http")


class Response(NamedTuple):
    """What a path answers."""

    status: str
    content_type: str
    body: bytes


class Router:
    """Answers requests from a table of paths."""

    def __init__(self, routes: Mapping[str, Callable[[], Response]]) -> None:
        self._routes = routes

    def respond(self, head: bytes) -> bytes:
        """Return the whole response, after which the connection is closed.

        Args:
            head: of a request, its request line first.
        """
        words = head.split(b"\r\n", 1)[0].split(b"\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _packed(text("400 Bad Request", "not HTTP/1"), with_body=True)
        return _packed(self.answer(words[0], _path(words[1])), with_body=words[0] != "HEAD")

    def answer(self, method: str, path: str) -> Response:
        """The response to a request."""
        route = self._routes.get(path)
        if route is None:
            return text("404 Not Found", f"not here; there is {', '.join(sorted(self._routes))}")
        if method not in ("GET", "HEAD"):
            return text("405 Method Not Allowed", "GET or HEAD only")
        try:
            return route()
        except Exception as error:
            log.error("a page failed", extra={"event": "page_failed", "path": path, **describe(error)})
            return text("500 Internal Server Error", "a bug; see the log of the service")


def _packed(response: Response, *, with_body: bool) -> bytes:
    fields = (
        f"HTTP/1.1 {response.status}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Connection: close",
    )
    return "\r\n".join((*fields, "", "")).encode() + (response.body if with_body else b"")


def _path(target: str) -> str:
    """The path of a request's target, which may be a whole URL."""
    try:
        path = urllib.parse.urlsplit(target).path
    except ValueError:
        return ""
    return urllib.parse.unquote(path)


def text(status: str, body: str) -> Response:
    """A plain-text response."""
    return Response(status, "text/plain; charset=utf-8", body.encode() + b"\n")


def routes(
    exposition: Callable[[], tuple[str, bytes]],
    serving: Callable[[], bool],
    stuck: Callable[[], bool] = lambda: False,
) -> dict[str, Callable[[], Response]]:
    """The service's paths.

    Args:
        exposition: content type and body of a scrape.
        serving: whether requests can be answered.
        stuck: whether there is work and nothing moves.
    """
    return {
        "/metrics": lambda: Response("200 OK", *exposition()),
        "/livez": lambda: text("503 Service Unavailable", "stuck") if stuck() else text("200 OK", "alive"),
        "/readyz": lambda: text("200 OK", "serving") if serving() else text("503 Service Unavailable", "not serving"),
    }


def serve_http(address: Address, router: Router) -> Listener:
    """Serve in a daemon thread until `shutdown` is called on the listener, whose port is `server_port`.

    Raises:
        OSError: the address is taken, or not of this machine.
    """
    return Listener(address, router.respond)
