"""The operational HTTP with silent and slow clients, and without file descriptors."""

from __future__ import annotations

import contextlib
import functools
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headlight_service.app import operational_http as module
from headlight_service.app.listen_addresses import taken
from headlight_service.app.operational_http import Listener, Response, respond
from headlight_service.config.option_types import Address
from tests.service.core.pipelines import until

ROOT = Path(__file__).parents[3]
LARGE = bytes(range(256)) * 40000


def fail() -> Response:
    raise ValueError("secret")


def listening() -> Listener:
    """Listen on a port of its own, for as long as the process lives."""
    pages = {
        "/ok": lambda: Response("200 OK", "text/plain", b"ok\n"),
        "/large": lambda: Response("200 OK", "application/octet-stream", LARGE),
        "/fails": fail,
    }
    return Listener(taken("--metrics", Address("127.0.0.1", 0)), functools.partial(respond, pages))


@pytest.fixture
def server() -> Listener:
    return listening()


def connect(server: Listener) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=30)


def everything(client: socket.socket) -> bytes:
    """Return all bytes until the server closes."""
    found = b""
    while received := client.recv(1 << 16):
        found += received
    return found


def ask(server: Listener, request: bytes) -> bytes:
    with connect(server) as client:
        client.sendall(request)
        return everything(client)


def test_the_oldest_connection_is_closed_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 4)
    server = listening()
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(server)) for _ in range(7)]
        for client in silent[:3]:
            assert everything(client) == b""
        silent[-1].sendall(b"GET /ok HTTP/1.1\r\n\r\n")
        assert everything(silent[-1]).endswith(b"ok\n")
        assert ask(server, b"GET /ok HTTP/1.0\r\n\r\n").endswith(b"ok\n")


@pytest.mark.parametrize(("descriptors", "most"), [(1 << 20, 256), (512, 128)])
def test_connections_are_limited_also_by_descriptors(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert listening()._most == most


def test_many_connections_share_one_thread(server: Listener) -> None:
    before = set(threading.enumerate())
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(server)).sendall(b"GET")
        assert ask(server, b"GET /ok HTTP/1.1\r\n\r\n").endswith(b"ok\n")
        assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("sent", [b"", b"GET /ok HT", b"GET /large HTTP/1.1\r\n\r\n"])
def test_a_client_has_a_limited_time(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(module, "CLIENT_SECONDS", 0.1)
    server = listening()
    with socket.socket() as client:
        # The large answer does not fit.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(("127.0.0.1", server.server_port))
        client.sendall(sent)
        until(lambda: not server._connections, "it is still connected")
        with contextlib.suppress(ConnectionResetError):
            assert len(everything(client)) < len(LARGE)


def test_a_response_larger_than_the_buffers_arrives_whole() -> None:
    head, _, body = ask(listening(), b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").partition(
        b"\r\n\r\n"
    )
    assert f"Content-Length: {len(LARGE)}".encode() in head
    assert body == LARGE


def test_a_request_may_come_in_pieces(server: Listener) -> None:
    with connect(server) as client:
        for piece in (b"GE", b"T /o", b"k HTTP/1.1\r", b"\n\r", b"\n"):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(piece)
        assert everything(client).endswith(b"ok\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /ok HTTP/1.1", b"200"),
        (b"GET http://host/ok?verbose HTTP/1.1", b"200"),
        (b"GET /%6fk HTTP/1.0", b"200"),
        (b"GET /fails HTTP/1.1", b"500"),
        (b"GET //ok HTTP/1.1", b"404"),
        (b"GET http://[/ HTTP/1.1", b"404"),
        (b"GET \xff\xfe HTTP/1.1", b"404"),
        (b"DELETE /ok HTTP/1.1", b"405"),
        (b"GET /ok", b"400"),
        (b"PRI * HTTP/2.0", b"400"),
        (b"\x16\x03\x01", b"400"),
    ],
)
def test_every_request_has_an_answer(server: Listener, request_line: bytes, status: bytes) -> None:
    for _ in range(2):
        assert ask(server, request_line + b"\r\n\r\n").startswith(b"HTTP/1.1 " + status)


def test_a_request_that_never_ends_is_refused() -> None:
    head = b"GET /ok HTTP/1.1\r\nX: ".ljust(module.HEAD_BYTES, b"x")
    assert ask(listening(), head).startswith(b"HTTP/1.1 431")


# In a process of its own, so that its file descriptors can be used up.
WITHOUT_DESCRIPTORS = """
import functools, os, resource, socket, sys, time
from headlight_service.app.operational_http import Listener
from headlight_service.app.listen_addresses import taken
from headlight_service.app.operational_http import Response, respond
from headlight_service.config.option_types import Address

def ask(client):
    client.sendall(b"GET /ok HTTP/1.1\\r\\n\\r\\n")
    found = b""
    while received := client.recv(4096):
        found += received
    return found.endswith(b"ok\\n")

def use_up():
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass

def connect(client):
    client.connect(("127.0.0.1", server.server_port))

def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

clients, held = [socket.socket() for _ in range(4)], []
for client in clients:
    client.settimeout(20)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
pages = {"/ok": lambda: Response("200 OK", "text/plain", b"ok\\n")}
server = Listener(taken("--metrics", Address("127.0.0.1", 0)), functools.partial(respond, pages))

use_up()
connect(clients[0])
wait_until(lambda: server._connections)  # silent, and has the spare descriptor
assert server._spare is None
connect(clients[1])
assert ask(clients[1]), "by the descriptor of the silent connection"
assert clients[0].recv(1) == b""
wait_until(lambda: server._spare is not None)
connect(clients[2])
assert ask(clients[2]), "by the spare descriptor"

wait_until(lambda: server._spare is not None)
server._spare.close()
server._spare = None
use_up()
connect(clients[3])
wait_until(lambda: server._listener.fileno() not in server._loop._selector.get_map())  # it pauses
used = time.process_time()
time.sleep(1)
assert time.process_time() - used < 0.3, "it spins"
for descriptor in held:
    os.close(descriptor)
assert ask(clients[3]), "now there are descriptors again"
"""


def test_without_file_descriptors_it_neither_fails_nor_spins() -> None:
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no file descriptor is left" in done.stderr
