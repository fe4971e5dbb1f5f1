"""Plain HTTP beside gRPC, for Prometheus and probes: a table of paths."""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headlight_service.frontends.http.request_checks import FOREIGN_HOST, is_accepted
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.app.operational_http")


class Response(NamedTuple):
    """The response of a path."""

    status: str
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Response]]


def respond(pages: Pages, head: bytes, hosts: frozenset[str] | None = None) -> bytes:
    """Return the whole response to a request; the connection is closed after it.

    Args:
        pages: the pages, by their paths.
        head: head of the request, with the request line first.
        hosts: accepted Host names besides those of the loopback; None: any, for a listener that
            other machines reach.
    """
    first, *lines = [line.decode("latin-1") for line in head.splitlines()]
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _packed(text("400 Bad Request", "not HTTP/1"), with_body=True)
    method, target, _ = words
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "host" and not is_accepted(value.strip(), hosts):
            return _packed(
                text("421 Misdirected Request", FOREIGN_HOST), with_body=method != "HEAD"
            )
    return _packed(_answer(pages, method, _path(target)), with_body=method != "HEAD")


def _answer(pages: Pages, method: str, path: str) -> Response:
    page = pages.get(path)
    if page is None:
        return text("404 Not Found", f"not here; there is {', '.join(sorted(pages))}")
    if method not in ("GET", "HEAD"):
        return text("405 Method Not Allowed", "GET or HEAD only")
    try:
        return page()
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
    """Return the path of a request's target, which may be a whole URL."""
    try:
        path = urllib.parse.urlsplit(target).path
    except ValueError:
        return ""
    return urllib.parse.unquote(path)


def text(status: str, body: str) -> Response:
    """Return a plain-text response."""
    return Response(status, "text/plain; charset=utf-8", body.encode() + b"\n")


def service_pages(
    exposition: Callable[[], tuple[str, bytes]],
    serving: Callable[[], bool],
    stuck: Callable[[], bool],
    starting: Callable[[], str],
) -> Pages:
    """Return the service's paths.

    Args:
        exposition: returns content type and body of a scrape.
        serving: returns whether requests can be answered.
        stuck: returns whether there is work without progress.
        starting: returns the state of a start; empty: it is over.
    """
    return {
        "/metrics": lambda: Response("200 OK", *exposition()),
        "/livez": lambda: (
            text("503 Service Unavailable", "stuck") if stuck() else text("200 OK", "alive")
        ),
        "/readyz": lambda: (
            text("200 OK", "serving")
            if serving()
            else text("503 Service Unavailable", starting() or "not serving")
        ),
    }
