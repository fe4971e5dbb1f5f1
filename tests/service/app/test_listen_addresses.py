from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from headlight_service.app.health import Readiness
from headlight_service.app.listen_addresses import PortTaken, bind, taken
from headlight_service.app.server_setup import build_health_server
from headlight_service.config.command_line import ConfigError
from headlight_service.config.option_types import Address

NOBODYS = Address("192.0.2.1", 52051)  # documentation addresses, which no machine has


async def test_the_reason_for_an_unusable_address_is_reported(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        used = Address("127.0.0.1", other.getsockname()[1])
        for address, reason in (
            (used, "is in use; stop the process"),
            (NOBODYS, "is not an address of this machine; give"),
        ):
            with pytest.raises(PortTaken, match=f"^--health {address} {reason}"):
                bind(build_health_server(Readiness(), lambda *_: None), address, option="--health")
            with pytest.raises(PortTaken, match=f"^--grpc {address} {reason}"):
                taken("--grpc", address)
    assert capfd.readouterr().err == "", "gRPC said it, too"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "not known"),
            ConfigError,
            "is away:1; the host is not found (not known)",
        ),
        (
            socket.gaierror(socket.EAI_AGAIN, "try again"),
            PortTaken,
            "away:1 cannot be listened on: try again",
        ),
    ],
)
def test_an_unknown_host_is_a_usage_error_and_a_failing_resolver_is_not(
    monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[Exception], reason: str
) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(kind) as told:
        taken("--metrics", Address("away", 1))
    assert str(told.value).startswith(f"--metrics {reason}")


def test_ipv4_is_preferred_for_a_dual_stack_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        stream = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [
            (socket.AF_INET6, *stream, ("::1", 0, 0, 0)),
            (socket.AF_INET, *stream, ("127.0.0.1", 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with taken("--metrics", Address("localhost", 0)) as own:
        assert own.getsockname()[0] == "127.0.0.1"


def test_a_privileged_port_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind_socket(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", bind_socket)
    with pytest.raises(PortTaken) as told:
        taken("--metrics", Address("127.0.0.1", 80))
    assert (
        str(told.value) == "--metrics 127.0.0.1:80 is not for this user; choose a port from 1024 on"
    )


async def test_a_port_taken_during_reservation_is_reported_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with taken("--grpc", Address("127.0.0.1", 0)) as ours:
        address = Address("127.0.0.1", ours.getsockname()[1])
        with taken("--metrics", address) as other:
            other.listen()
            with pytest.raises(PortTaken, match="is in use"):
                bind(build_health_server(Readiness(), lambda *_: None), address)
    assert capfd.readouterr().err == ""
