from __future__ import annotations

import functools
import http.client

import pytest

from headlight_service.app.listen_addresses import taken
from headlight_service.app.operational_http import Listener, respond, service_pages
from headlight_service.config.option_types import Address

State = dict[str, bool]


@pytest.fixture
def state() -> State:
    return {"serving": False}


@pytest.fixture
def port(state: State) -> int:
    exposition = ("text/plain; version=0.0.4", b"metric 1\n")
    pages = service_pages(
        lambda: exposition,
        lambda: state["serving"],
        lambda: False,
        lambda: "",
    )
    return Listener(
        taken("--metrics", Address("127.0.0.1", 0)), functools.partial(respond, pages)
    ).server_port


def request(port: int, method: str, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    answer = response.status, response.headers["Content-Type"], response.read().decode()
    connection.close()
    return answer


def test_metrics_are_served(port: int) -> None:
    assert request(port, "GET", "/metrics") == (200, "text/plain; version=0.0.4", "metric 1\n")


def test_readiness_follows_the_service_and_liveness_does_not(port: int, state: State) -> None:
    assert request(port, "GET", "/readyz")[0] == 503
    assert request(port, "GET", "/livez")[0] == 200
    state["serving"] = True
    assert request(port, "GET", "/readyz?verbose")[0] == 200


def test_other_paths_are_not_found(port: int) -> None:
    status, _, body = request(port, "GET", "/")
    assert (status, body) == (404, "not here; there is /livez, /metrics, /readyz\n")
    assert request(port, "POST", "/metrics")[0] == 405
    assert request(port, "HEAD", "/livez") == (200, "text/plain; charset=utf-8", "")
