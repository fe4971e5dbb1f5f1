"""Plain HTTP beside gRPC, for Prometheus and probes: a table of paths, served by a thread of its own."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from service.parsing import Address

CLIENT_TIMEOUT_SECONDS = 10  # of silence; so that a client that says nothing does not keep a thread


class Response(NamedTuple):
    """What a path answers."""

    status: str
    content_type: str
    body: bytes


class Router:
    """A WSGI application over a table of paths."""

    def __init__(self, routes: Mapping[str, Callable[[], Response]]) -> None:
        self._routes = routes

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        response = self.answer(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "/"))
        headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        start_response(response.status, headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else response.body]

    def answer(self, method: str, path: str) -> Response:
        """The response to a request."""
        route = self._routes.get(path)
        if route is None:
            return text("404 Not Found", f"not here; there is {', '.join(sorted(self._routes))}")
        if method not in ("GET", "HEAD"):
            return text("405 Method Not Allowed", "GET or HEAD only")
        return route()


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


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # scrapes every few seconds say nothing
        pass


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The classes between would look up the host's name, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # a client that hangs up is no news
        pass


def serve_http(address: Address, router: Router) -> WSGIServer:
    """Serve in a daemon thread until `shutdown` is called on the server returned; its port is `server_port`.

    Raises:
        OSError: the address is taken, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    kind = type("Server", (_Server,), {"address_family": family})
    server: WSGIServer = kind(tuple(address), _Handler)
    server.set_app(router)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
