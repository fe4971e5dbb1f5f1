"""Ports that are free, that a Headlight service has, or something else."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest

import headlight_service
from headlight.cli.doctor import default_ports
from headlight.cli.doctor.default_ports import (
    API_PORT,
    GRPC_PORT,
    HOST,
    METRICS_PORT,
    api_port,
    grpc_port,
    metrics_port,
)
from headlight.errors import Reason, Unauthenticated, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight_service.config.options import Config
from tests.headlight.fake_server import (
    FakeServicer,
    Refusal,
    abort,
    default_limits,
    refused,
    serving,
)
from tests.ports import free_port


def number(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextlib.contextmanager
def serving_page(page: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_the_ports_are_the_defaults_of_the_service() -> None:
    expected = [(HOST, port) for port in (GRPC_PORT, API_PORT, METRICS_PORT)]
    assert [Config.grpc, Config.api, Config.metrics] == expected


def test_a_port_that_nobody_has_is_free() -> None:
    port = free_port()
    assert [ask(port).state for ask in (grpc_port, api_port, metrics_port)] == ["free"] * 3


def test_a_service_is_known_by_its_answer(target: str) -> None:
    found = grpc_port(number(target))
    assert (found.address, found.state, found.detail) == (target, "headlight", "fake, fp32 on cpu")


@pytest.mark.parametrize(
    ("refusal", "state", "detail"),
    [
        (
            refused(Unauthenticated(Reason.NO_TOKEN)),
            "headlight",
            "a service that wants a token",
        ),
        (refused(Unavailable(Reason.LOADING)), "headlight", "a service that loads its model"),
        (
            Refusal(grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
            "other",
            "in use: no Headlight service answers there",
        ),
    ],
)
def test_a_refusal_tells_whose_port_it_is(refusal: Refusal, state: str, detail: str) -> None:
    class Refusing(FakeServicer):
        def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
            abort(context, refusal)

    with serving(Refusing(default_limits())) as target:
        found = grpc_port(number(target))
    assert (found.state, found.detail) == (state, detail)


def test_something_else_on_a_port_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, serving_page(b"hello") as page:
        port = silent.getsockname()[1]
        assert grpc_port(page).state == "other"
        assert grpc_port(page).detail == "in use: no gRPC in plaintext answers there"
        assert api_port(page).state == metrics_port(page).state == "other"
        assert api_port(port).state == metrics_port(port).state == "other"


def test_the_port_of_a_service_that_starts_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with serving_page(f"starting, gRPC port {port}: step 4 of 9: tracing\n".encode()) as page:
        monkeypatch.setattr(default_ports, "METRICS_PORT", page)
        found = grpc_port(port)
        other = grpc_port(free_port())
    assert (found.state, found.detail) == (
        "headlight",
        "a service that starts: step 4 of 9: tracing",
    )
    assert other.state == "free"


def test_a_port_behind_a_proxy_is_not_tried_and_the_variable_is_named(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.test:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    found = grpc_port(number(target))
    assert (found.state, found.detail) == (
        "other",
        "not tried: calls go through the proxy of http_proxy; "
        "add 127.0.0.1 to no_proxy to connect directly",
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert grpc_port(number(target)).state == "headlight"


def test_metrics_of_ours_are_known() -> None:
    with serving_page(b"# HELP headlight_requests_total x") as page:
        assert metrics_port(page).state == "headlight"
        assert api_port(page).state == "other"


def test_the_document_of_our_http_is_known() -> None:
    document = Path(headlight_service.__file__).parent / "frontends/http/openapi.json"
    with serving_page(document.read_bytes()) as page:
        assert api_port(page).state == "headlight"
