"""The HTTP frontend's application: finds the route, checks the request, sends the response."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headlight.errors import DeadlineExceeded, Reason, Unavailable
from headlight.refusals import Edge
from headlight_service.core.admission.shed_error import label_of
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.failure import failure_of
from headlight_service.frontends.http import cors
from headlight_service.frontends.http.arriving_bodies import ArrivingBodies
from headlight_service.frontends.http.body_transfer import receive_body, send_response
from headlight_service.frontends.http.exchange import (
    ClientGone,
    ErrorEncoder,
    Exchange,
    Options,
    Response,
    Route,
)
from headlight_service.frontends.http.http_status import (
    HttpError,
    error_response,
    http_error,
    status_of,
)
from headlight_service.frontends.http.open_connections import OpenConnections
from headlight_service.frontends.http.request_checks import check_content, check_host, check_origin
from headlight_service.security.authentication import ANONYMOUS, Authenticator
from headlight_service.telemetry.metrics import Metrics
from headlight_service.telemetry.request_id import REQUEST_ID, given_id

if TYPE_CHECKING:
    from headlight_service.frontends.http.connection import Connection
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.frontends.http.door")
VERSION = "/v1"
SLASHES = re.compile(r"//+")
GONE_STATUS = 499  # counted for a client that disconnected
Receive = Callable[[], Any]
Send = Callable[[Any], Any]


class Dialect(Protocol):
    """A module in `dialects/`."""

    PROTOCOL: str
    EDGE: Edge  # the words of its errors

    def routes(self, door: Door) -> list[Route]:
        """Return the routes; called once, at start-up."""

    @property
    def encode_error(self) -> ErrorEncoder:
        """The encoder of errors of its paths, in its form."""


class Door:
    """The application that uvicorn calls. On the event loop of the server.

    Attributes:
        pipeline: receives the requests.
        options: its options.
        serving: returns whether requests are answered.
        draining: whether new requests are refused.
        in_flight: requests whose response is not yet sent.
        connections: all open connections.
        arriving: bytes of bodies that arrive.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        metrics: Metrics,
        dialects: Sequence[Dialect],
        options: Options,
        *,
        serving: Callable[[], bool] = lambda: True,
        authenticator: Authenticator | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """Make the table of routes. The first dialect's form is used for unknown paths."""
        self.pipeline = pipeline
        self.options = options
        self.serving = serving
        self.draining = False
        self.in_flight: set[Exchange] = set()
        self.connections = OpenConnections(options.most_connections)
        self.arriving = ArrivingBodies(lambda: pipeline.models.get().admission)
        self._arrivals = set[asyncio.Timeout]()
        self._metrics = metrics
        self._authenticator = authenticator
        self._tracing = tracing
        self._default = dialects[0]
        self._paths: dict[str, dict[str, Route]] = {}
        self._prefixes: dict[str, dict[str, Route]] = {}
        self._dialect_of: dict[str, Dialect] = {}
        for dialect in dialects:
            for route in dialect.routes(self):
                self._add(route, dialect)

    def encode_error(self, status: int, message: str) -> Response:
        """Return the response to bytes that are no request."""
        return self._default.encode_error(http_error(status, message).refusal)

    def count(self, protocol: str, method: str, status: int) -> None:
        """Count a request that has ended."""
        self._metrics.requests.labels(protocol, method, str(status)).inc()

    async def arrival(self, receive: Receive, seconds: float) -> Any:
        """Return what `receive` returns; None: it took too long.

        Raises:
            Unavailable: the replica is shutting down.
        """
        if seconds == math.inf:
            return await receive()
        if self.draining:
            raise Unavailable(Reason.ENDING)
        try:
            async with asyncio.timeout(seconds) as timeout:
                self._arrivals.add(timeout)
                return await receive()
        except TimeoutError:
            if self.draining:
                raise Unavailable(Reason.ENDING) from None
            return None
        finally:
            self._arrivals.discard(timeout)

    def end_arrivals(self) -> None:
        """Wait no longer for bodies that are not complete. On the event loop."""
        for timeout in self._arrivals:
            with contextlib.suppress(RuntimeError):  # it is over already
                timeout.reschedule(0.0)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; uvicorn's interface (ASGI 3)."""
        # Taken out: a connection and its last request refer to each other.
        connection: Connection = scope["state"].pop("connection")
        exchange = self._exchange(scope)
        route, dialect = self._find(exchange)
        response: Response | None = None
        error: Exception | None = None
        self.in_flight.add(exchange)
        connection.serve(exchange)
        try:
            version = scope["http_version"]
            response = await self._answer(exchange, route, version, connection, receive)
            status = response.status
        except ClientGone as gone:
            status, error = GONE_STATUS, gone
        except asyncio.CancelledError:  # the grace time of a drain is over
            error = Unavailable(Reason.ENDING)
        except Exception as failed:
            error = failed
        if response is None and not isinstance(error, ClientGone):
            assert error is not None
            response = self._refused(error, exchange, dialect)
            status = response.status
        try:
            if response is not None:
                head = (
                    *response.headers,
                    *cors.headers(exchange.headers, self.options.cors_origins),
                    (REQUEST_ID, exchange.request_id),
                )
                await self._send(response._replace(headers=head), connection, receive, send)
        except ClientGone as gone:
            status, error = GONE_STATUS, gone
        finally:
            connection.served()
            exchange.release_body()
            exchange.close(error)
            if exchange.trace is not None:
                exchange.trace.end_http(status, _reason(error))
            protocol, method = (
                ("http", "other") if route is None else (dialect.PROTOCOL, route.path)
            )
            self.count(protocol, method, status)
            self.in_flight.discard(exchange)

    async def _send(
        self, response: Response, connection: Connection, receive: Receive, send: Send
    ) -> None:
        """Send a response; return once it is sent. Raises ClientGone."""
        if connection.current.more_body:  # nobody wants the rest
            connection.body.drop()
        await send_response(
            response,
            connection,
            receive,
            send,
            stall_seconds=self.options.stall_seconds,
            close=self.draining or time.monotonic() > connection.ends,
            linger=not self.connections.crowded,
        )

    async def _answer(
        self,
        exchange: Exchange,
        route: Route | None,
        http_version: str,
        connection: Connection,
        receive: Receive,
    ) -> Response:
        """Check the request, read its body, and call the handler."""
        check_host(exchange.headers, http_version, self.options.hosts)
        if exchange.method == "OPTIONS" and cors.is_preflight(exchange.headers):
            return self._preflight(exchange)
        public = route is not None and route.public  # such answers are the same for everybody
        if not (public or cors.is_allowed(exchange.headers, self.options.cors_origins)):
            check_origin(exchange.headers, self.options.hosts)
        if self._authenticator is not None and not public:
            given = exchange.headers.get("authorization", "")
            name = self._authenticator.token_name([("authorization", given)])
            if name is None:
                name = next(iter(connection.certificate_names()), ANONYMOUS)
            exchange.client = name
        else:
            exchange.client = connection.address
        if route is None:
            raise self._unknown(exchange)
        if not route.public:
            if self.draining:
                raise Unavailable(Reason.ENDING)
            exchange.read_options()
            if self._tracing is not None:
                headers = exchange.headers.items()
                exchange.trace = self._tracing.http(route.method, route.path, headers)
            if route.method == "POST":
                check_content(exchange.headers)
                exchange.body = await receive_body(exchange, connection, receive)
                if exchange.deadline < time.monotonic():
                    raise DeadlineExceeded(Reason.EXPIRED_WHILE_SENT)
        return await route.handler(exchange)

    def _preflight(self, exchange: Exchange) -> Response:
        """Return what a browser asks before it sends a page's request; it brings no token."""
        methods = self._methods(exchange.path)
        if methods is None:
            raise self._unknown(exchange)
        return cors.preflight(exchange.headers, self.options.cors_origins, methods)

    def _refused(self, error: Exception, exchange: Exchange, dialect: Dialect) -> Response:
        """Return the response to a failed request, in the dialect's form."""
        if isinstance(error, HttpError):
            refusal = error.refusal
        else:
            failure = failure_of(error, exchange.known, status_of)
            refusal = error_response(failure, dialect.EDGE)
        response = dialect.encode_error(refusal._replace(request_id=exchange.request_id))
        headers = (*response.headers, *refusal.headers, *refusal.retry_headers)
        return response._replace(headers=headers)

    def _exchange(self, scope: Mapping[str, Any]) -> Exchange:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        path = SLASHES.sub("/", scope["path"]).rstrip("/") or "/"
        request_id = given_id([(REQUEST_ID, headers.get(REQUEST_ID, ""))]) or uuid.uuid4().hex
        return Exchange(self, method, path, headers, scope["query_string"], request_id)

    def _find(self, exchange: Exchange) -> tuple[Route | None, Dialect]:
        """Return the route of a request, or None, and the dialect of its errors."""
        methods = self._paths.get(exchange.path)
        if methods is None:
            for prefix, routes in self._prefixes.items():
                if exchange.path.startswith(prefix):
                    methods, exchange.rest = routes, exchange.path.removeprefix(prefix)
                    exchange.path = f"{prefix}*"
                    break
        if methods is None:
            return None, self._default
        route = methods.get(exchange.method)
        any_route = route or next(iter(methods.values()))
        return route, self._dialect_of[f"{any_route.method} {any_route.path}"]

    def _methods(self, path: str) -> dict[str, Route] | None:
        return self._paths.get(path) or self._prefixes.get(path.removesuffix("*"))

    def _unknown(self, exchange: Exchange) -> HttpError:
        """Return the error of a request without a route."""
        methods = self._methods(exchange.path)
        if methods is not None:
            allowed = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
            return http_error(
                405, f"this path takes {allowed}", reason="method", headers=(("allow", allowed),)
            )
        if exchange.path == "/metrics":
            return http_error(
                404, f"metrics are served on {self.options.metrics_address}, by --metrics"
            )
        hint = self._base_url_hint(exchange.path)
        return http_error(
            404, f"there is no such path; {hint}GET /openapi.json lists them", reason="path"
        )

    def _base_url_hint(self, path: str) -> str:
        """Return a remedy if only the end of a client's base URL is wrong; empty: it is not."""
        if self._is_known(VERSION + path):
            return f"there is {VERSION}{path}: let the client's base URL end in {VERSION}; "
        shorter = path.removeprefix(VERSION)
        if shorter != path and self._is_known(shorter):
            return f"there is {shorter}: leave {VERSION} off the client's base URL; "
        return ""

    def _is_known(self, path: str) -> bool:
        return path in self._paths or any(map(path.startswith, self._prefixes))

    def _add(self, route: Route, dialect: Dialect) -> None:
        table = self._prefixes if route.path.endswith("/*") else self._paths
        methods = table.setdefault(route.path.removesuffix("*"), {})
        if route.method in methods:
            raise ValueError(f"{route.method} {route.path} belongs to two dialects")
        methods[route.method] = route
        self._dialect_of[f"{route.method} {route.path}"] = dialect


def _reason(error: Exception | None) -> str:
    """Return why a request was not answered, of a closed set; empty: it was."""
    if error is None:
        return ""
    if isinstance(error, ClientGone):
        return "cancelled"
    return "http" if isinstance(error, HttpError) else label_of(error)
