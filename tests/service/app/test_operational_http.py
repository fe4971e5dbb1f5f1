from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from headlight_service.app.operational_http import Router, routes, serve_http
from headlight_service.config.option_types import Address

State = dict[str, bool]


@pytest.fixture
def state() -> State:
    return {"serving": False}


@pytest.fixture
def port(state: State) -> Iterator[int]:
    router = Router(routes(lambda: ("text/plain; version=0.0.4", b"metric 1\n"), lambda: state["serving"]))
    server = serve_http(Address("127.0.0.1", 0), router)
    yield server.server_port
    server.shutdown()
    server.server_close()


def request(port: int, method: str, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    answer = response.status, response.headers["Content-Type"], response.read().decode()
    connection.close()
    return answer


def test_metrics(port: int) -> None:
    assert request(port, "GET", "/metrics") == (200, "text/plain; version=0.0.4", "metric 1\n")


def test_readiness_follows_the_service_and_liveness_does_not(port: int, state: State) -> None:
    assert request(port, "GET", "/readyz")[0] == 503
    assert request(port, "GET", "/livez")[0] == 200
    state["serving"] = True
    assert request(port, "GET", "/readyz?verbose")[0] == 200


def test_there_is_nothing_else(port: int) -> None:
    status, _, body = request(port, "GET", "/")
    assert (status, body) == (404, "not here; there is /livez, /metrics, /readyz\n")
    assert request(port, "POST", "/metrics")[0] == 405
    assert request(port, "HEAD", "/livez") == (200, "text/plain; charset=utf-8", "")


def test_a_taken_port_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        serve_http(Address("127.0.0.1", port), Router({}))
