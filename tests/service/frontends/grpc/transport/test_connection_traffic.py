from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headlight_service.frontends.grpc.transport.connection_traffic import (
    bytes_moved,
    close_connection,
)

HOSTS = {"127.0.0.1": "ipv4:127.0.0.1", "::1": "ipv6:%5B::1%5D"}


# The addresses of server and client; the last is what a server on [::] sees
# of IPv4.
ENDS = [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")]


@pytest.fixture(params=ENDS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket, str]]:
    """Return a client socket, a server socket, and gRPC's name of the client."""
    at, host = request.param
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    try:
        listener = socket.create_server((at, 0), family=family, dualstack_ipv6=at == "::")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener, socket.create_connection((host, listener.getsockname()[1])) as client:
        server, _ = listener.accept()
        with server:
            yield client, server, f"{HOSTS[host]}:{client.getsockname()[1]}"


def test_a_connection_is_closed_by_its_peer_name(
    pair: tuple[socket.socket, socket.socket, str],
) -> None:
    client, server, peer = pair
    client.settimeout(30)
    assert close_connection(peer)
    assert client.recv(1) == server.recv(1) == b""
    assert server.fileno() != -1, "whose descriptor it is closes it"


def test_acknowledged_bytes_are_counted(pair: tuple[socket.socket, socket.socket, str]) -> None:
    client, server, peer = pair
    client.settimeout(30)
    before, _ = bytes_moved()[peer]
    server.sendall(b"x" * 10_000)
    left = 10_000
    while left:
        left -= len(client.recv(left))
    while bytes_moved()[peer][0] != before + 10_000:  # the acknowledgement is on its way
        pass


def test_received_bytes_are_counted(pair: tuple[socket.socket, socket.socket, str]) -> None:
    client, _, peer = pair
    _, before = bytes_moved()[peer]
    client.sendall(b"x" * 10_000)
    while bytes_moved()[peer][1] != before + 10_000:  # it is on its way
        pass


@pytest.mark.parametrize(
    "peer", ["ipv4:127.0.0.1:1", "unix:/tmp/socket", "unix:", "ipv4:127.0.0.1", ""]
)
def test_other_connections_are_not_closed(peer: str) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert not close_connection(peer)
        assert peer not in bytes_moved()
        one.sendall(b"x")
        assert other.recv(1) == b"x"
