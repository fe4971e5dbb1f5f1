"""A command waits for a service on this machine that starts."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from headlight.cli.doctor import default_ports
from headlight.cli.doctor.default_ports import wait_for_start
from headlight.errors import DeadlineExceeded


class Metrics(http.server.BaseHTTPRequestHandler):
    """/readyz of a service that starts; after two answers its gRPC port listens."""

    page, answers, opens = "", 0, True

    def do_GET(self) -> None:
        type(self).answers += 1
        if self.opens and self.answers > 2:
            grpc.listen()
        self.send_response(503)
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


grpc: socket.socket


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    global grpc
    with (
        http.server.HTTPServer(("127.0.0.1", 0), Metrics) as server,
        socket.socket() as grpc,
    ):
        grpc.bind(("127.0.0.1", 0))
        port = grpc.getsockname()[1]
        monkeypatch.setattr(default_ports, "METRICS_PORT", server.server_port)
        monkeypatch.setattr(default_ports, "POLL_SECONDS", 0.0)
        Metrics.page, Metrics.answers, Metrics.opens = "", 0, True
        Metrics.page = f"starting, gRPC port {port}: step 4 of 9: tracing the graph\n"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{port}"
        server.shutdown()
        thread.join()


def test_the_step_is_shown_once_until_the_port_listens(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_start(target, None)
    assert capsys.readouterr().err == (
        f"waiting for the service at {target}, which starts: step 4 of 9: tracing the graph\n"
    )


def test_a_start_longer_than_the_timeout_is_named(target: str) -> None:
    Metrics.opens = False
    with pytest.raises(DeadlineExceeded, match="still starts: step 4 of 9: tracing the graph"):
        wait_for_start(target, 0.0)


@pytest.mark.parametrize("page", ["", "not serving", "starting, gRPC port 1: step 4 of 9: x"])
def test_no_service_that_starts_at_the_target_is_not_waited_for(target: str, page: str) -> None:
    Metrics.page, Metrics.opens = page, False
    wait_for_start(target, None)
    assert Metrics.answers == 1
