"""An HTTP frontend in this process, on a real socket, over a runtime without a model."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from headlight.runtime import Runtime
from headlight_service.app.assembly import assemble
from headlight_service.app.executor import Executor
from headlight_service.app.server_setup import build_api
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.http.connection import Connection
from headlight_service.frontends.http.http_server import HttpServer
from headlight_service.security.authentication import Authenticator
from headlight_service.telemetry.metrics import Metrics
from tests.service.core.pipelines import until
from tests.service.fakes import FakeEngine, FakeRuntime, fit

JSON = {"content-type": "application/json"}


@dataclasses.dataclass
class Reply:
    """A response as a client reads it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass
class HttpService:
    """A running frontend, with the parts that tests inspect."""

    port: int
    server: HttpServer
    model: ServedModel
    engine: FakeEngine
    metrics: Metrics
    serving: list[bool]
    tls: ssl.SSLContext | None = None

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        headers: Mapping[str, str] = JSON,
    ) -> Reply:
        """Send one request on a connection of its own; a body that is not bytes is JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        with contextlib.closing(self.connection()) as client:
            client.request(method, path, data, dict(headers))
            response = client.getresponse()
            return Reply(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )

    def connection(self) -> http.client.HTTPConnection:
        if self.tls is not None:
            return http.client.HTTPSConnection("localhost", self.port, context=self.tls, timeout=60)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    @contextlib.contextmanager
    def raw(self, data: bytes = b"") -> Iterator[socket.socket]:
        """Yield a connected socket that has sent these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(data)
            yield client

    def talk(self, data: bytes) -> bytes:
        """Send bytes; return all that comes until the server closes the connection."""
        with self.raw(data) as client:
            return read_all(client)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric of the model."""
        return self.sample(name, model="fake", **labels)

    def counted(self, protocol: str, method: str, code: str) -> float | None:
        """Return the number of requests that were answered with this code."""
        labels = {"protocol": protocol, "method": method, "code": code}
        return self.sample("headlight_requests_total", **labels)

    def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert self.engine.started.acquire(timeout=60)

    @property
    def held(self) -> tuple[int, int, int]:
        """Return bytes of requests, tokens, and bytes of answers."""
        admission = self.model.admission
        return admission.requests.held, admission.tokens.held, admission.outputs.held


@contextlib.contextmanager
def http_service(
    runtime: FakeRuntime | Runtime | None = None,
    *,
    authenticator: Authenticator | None = None,
    quotas: Quotas | None = None,
    tls: ssl.SSLContext | None = None,
    tracing: Any = None,
    **options: Any,
) -> Iterator[HttpService]:
    """Run a frontend; at the end nothing may be held."""
    options.setdefault("api", Address("127.0.0.1", 0))
    config = Config(bundle=Path("none"), **options)
    runtime = runtime or FakeRuntime()
    metrics, models, tokenizers = Metrics(), Models(), TokenizerThreads(1)
    ready = cast(Runtime, fit(runtime, config))
    executor = Executor(config, ready.workers.streams)
    model = assemble(ready, config, metrics, executor, tracing)
    models.add(model)
    serving = [True]
    pipeline = Pipeline(models, tokenizers, quotas)
    server = build_api(
        config,
        pipeline,
        metrics,
        lambda: serving[0],
        grpc_port=50051,
        tls=tls,
        authenticator=authenticator,
        tracing=tracing,
    )
    assert server is not None
    server.start()
    engine = cast(FakeEngine, runtime.engine)
    made = HttpService(server.port, server, model, engine, metrics, serving)
    try:
        yield made
        if isinstance(runtime, FakeRuntime):
            engine.gate.set()
        until(lambda: made.held == (0, 0, 0), "something is still held")
        until(lambda: not server.door.in_flight, "a request is still in flight")
        assert server.door.connections.queued >= 0
        until(lambda: not server.door.arriving.held, "bytes of bodies are still held")
    finally:
        if isinstance(runtime, FakeRuntime):
            engine.gate.set()
        asyncio.run(server.stop(0))
        model.scheduler.close()
        pipeline.close()


def read_all(client: socket.socket) -> bytes:
    """Read until the other side closes, or resets, the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(1 << 16):
            received += piece
    return received


def read_reply(client: socket.socket, method: str = "POST") -> Reply:
    """Read one response from a raw socket."""
    response = http.client.HTTPResponse(client, method=method)
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, response.read())


def open_connections(service: HttpService) -> list[Connection]:
    """Return the connections whose handshake is done, in no order."""
    return [cast(Connection, each) for each in [*service.server.door.connections._open]]


def post(body: Any, path: str = "/v1/embeddings", **headers: str) -> bytes:
    """Return the bytes of a POST of JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(data)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + data
