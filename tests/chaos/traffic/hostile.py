"""Hostile shapes of HTTP traffic, and what they may cost: memory, descriptors, neighbours' time.

Each shape is a function that sends it to a service and ends. `Costs` watches the service meanwhile.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.system.processes import Service

HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SECONDS = 60.0


class Costs:
    """The costs of hostile traffic to a service and its neighbours, as a context manager.

    Attributes:
        memory: bytes by which the resident memory grew at most.
        descriptors: most open descriptors.
        seconds: how long each request of a neighbour took, which asks all the time.
        refused: the neighbour's requests that were not answered with 200.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.memory = self.descriptors = 0
        self.seconds = list[float]()
        self.refused = list[object]()

    def __enter__(self) -> Costs:
        self.refused.clear()
        embed(self._service)  # the first of a kind takes memory that stays
        self._service.forget_peak()
        self._before = self._service.resident_bytes()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(SECONDS)
        self.memory = self._service.peak_bytes() - self._before

    def __str__(self) -> str:
        times = sorted(self.seconds)
        return (
            f"memory +{self.memory >> 20} MiB at its peak, {self.descriptors} descriptors, "
            f"a neighbour's median {times[len(times) // 2] * 1e3:.0f} ms, "
            f"longest {times[-1] * 1e3:.0f} ms"
        )

    def _ask(self) -> None:
        while not self._over.wait(0.005):
            began = time.monotonic()
            try:
                status: object = embed(self._service)
            except (OSError, http.client.HTTPException) as problem:
                status = repr(problem)
            self.seconds.append(time.monotonic() - began)
            if status != 200:
                self.refused.append(status)
            self.descriptors = max(self.descriptors, self._service.open_files())


def embed(service: Service, text: str = "a small text", **headers: str) -> int:
    """Ask for one vector on a new connection; return the status."""
    status, _ = post(service, "/v1/embeddings", {"input": text}, **headers)
    return status


def post(service: Service, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
    """Post JSON, or bytes, on a new connection; return the status and the body."""
    host, _, port = service.rest.partition(":")
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=SECONDS)) as client:
        client.request("POST", path, data, {"content-type": "application/json", **headers})
        answer = client.getresponse()
        return answer.status, answer.read()


def connected(service: Service) -> socket.socket:
    """Return a new connection, for a `with` statement."""
    host, _, port = service.rest.partition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def request(path: str, body: Any) -> bytes:
    """Return the bytes of a POST of JSON."""
    data = json.dumps(body).encode()
    return (HEAD.format(path) + f"Content-Length: {len(data)}\r\n\r\n").encode() + data


@contextlib.contextmanager
def connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Yield connections, some of which may be closed by the service at any time."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as opened:
        made = list[socket.socket]()
        for _ in range(count):
            client = opened.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((host, int(port)))
            made.append(client)
        yield made


def send(client: socket.socket, data: bytes) -> bool:
    """Send what goes at once; return False if the connection is closed."""
    try:
        client.send(data)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def closed(client: socket.socket) -> bool:
    """Return whether the service has closed a connection that does not block."""
    try:
        return client.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def receive_all(client: socket.socket, seconds: float = SECONDS) -> bytes:
    """Return what comes until the service closes the connection."""
    received, end = b"", time.monotonic() + seconds
    with contextlib.suppress(ConnectionError):
        while select.select([client], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (piece := client.recv(1 << 16)):
                return received
            received += piece
        raise AssertionError("the connection stays open")
    return received


def pipelined_flood(service: Service, size: int = 32 << 20) -> int:
    """Send requests without waiting for answers; return the bytes that the service took."""
    piece, sent = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000, 0
    with contextlib.suppress(OSError), connected(service) as client:
        while sent < size:
            sent += client.send(piece)
    return sent


def nested_lists(service: Service) -> list[int]:
    """Send lists of lists, and many numbers, to all doors; return the statuses."""
    many = [
        ("/embed", b'{"inputs":[' + b"[1]," * 1_000_000 + b"[1]]}"),
        ("/embed", b'{"inputs":[' + b"[]," * 1_300_000 + b"[]]}"),
        ("/embed", b'{"inputs":[' + b"1.5," * 1_000_000 + b"1]}"),
        ("/v1/embeddings", b'{"input":[' + b'"",' * 1_300_000 + b'""]}'),
        ("/v1/encode", b'{"inputs":[{"ids":{"ids":[' + b"1.5," * 1_000_000 + b"1]}}]}"),
        ("/v1/encode", b'{"inputs":[' + b"{}," * 1_300_000 + b"{}]}"),
        ("/vectors", b'{"texts":[' + b"{}," * 1_300_000 + b"{}]}"),
        ("/tokenize", b'{"inputs":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}"),
    ]
    return [post(service, path, body)[0] for path, body in many]


def random_lists(service: Service, chance: random.Random) -> tuple[str, int]:
    """Send one kind of values many times, at any door; return the path and the status."""
    path, field = chance.choice(
        [
            ("/embed", '{"inputs":'),
            ("/embed_all", '{"inputs":'),
            ("/tokenize", '{"inputs":'),
            ("/similarity", '{"inputs":{"source_sentence":"a","sentences":'),
            ("/v1/embeddings", '{"input":'),
            ("/v1/encode", '{"inputs":'),
            ("/v1/compare", '{"query":{"text":"a"},"passages":'),
            ("/v1/occlude", '{"input":{"ids":{"ids":'),
            ("/vectors", '{"texts":'),
        ]
    )
    one = chance.choice(["[1]", "[]", "{}", '""', "1.5", "7", "[[1]]", '{"text":""}', "null"])
    times = int(10 ** chance.uniform(1, 5.6))
    body = f"{field}[{','.join([one] * times)}]{'}' * field.count('{')}".encode()
    return path, post(service, path, body)[0]


def silent_handshakes(service: Service, count: int) -> int:
    """Open connections that send nothing; return how many the service closed within a moment."""
    with connections(service.rest, count) as opened:
        time.sleep(0.5)  # a client's pause: the service has time to accept them
        return sum(closed(client) for client in opened)


def trickled_bodies(service: Service, count: int, seconds: float, size: int = 4 << 20) -> None:
    """Declare large bodies, and send a byte of each now and then."""
    head = HEAD.format("/v1/embeddings") + f"Content-Length: {size}\r\n\r\n"
    with connections(service.rest, count) as opened:
        until, at = time.monotonic() + seconds, 0
        data = head.encode() + b"{"
        while time.monotonic() < until:
            for client in opened:
                send(client, data if at == 0 else b" ")
            at += 1
            time.sleep(0.1)


def large_bodies(service: Service, count: int, seconds: float, size: int = 4 << 20) -> None:
    """Send all but the last byte of large bodies, and wait."""
    head = HEAD.format("/v1/embeddings") + f"Content-Length: {size}\r\n\r\n"
    with connections(service.rest, count) as opened:
        left = {client: memoryview(head.encode() + b" " * (size - 1)) for client in opened}
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for client, rest in list(left.items()):
                try:
                    left[client] = rest[client.send(rest[: 1 << 18]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    del left[client]
            time.sleep(0.01)


def lingering(service: Service, count: int, seconds: float) -> None:
    """Send requests that are refused before their body, and never the body."""
    data = (HEAD.format("/none") + "Content-Length: 1000\r\n\r\n").encode()
    with connections(service.rest, count) as opened:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for client in opened:
                send(client, data)
            time.sleep(0.1)


def trailers(service: Service, *lines: str, path: str = "/v1/embeddings", head: str = "") -> bytes:
    """Send a chunked request with trailers; return the answer."""
    body = b'{"input":"a"}'
    data = (
        (HEAD.format(path) + head + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        + f"{len(body):x}\r\n{body.decode()}\r\n0\r\n"
        + "".join(f"{line}\r\n" for line in lines)
        + "\r\n"
    )
    with connected(service) as client:
        client.sendall(data.encode())
        return receive_all(client)


def limited(descriptors: int) -> tuple[str, ...]:
    """Return a command that runs the command behind it with so many descriptors at most."""
    return ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh")


def own_user() -> tuple[str, ...]:
    """Return a command that runs the command behind it as a user whom limits bind, unlike root."""
    if os.getuid():
        return ()
    return ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")


def allow_no_thread(service: Service) -> None:
    """Let the service, of `own_user`, start no more threads, as a `pids` limit does."""
    limit = ("prlimit", "--pid", str(service.process.pid), "--nproc=1:")
    subprocess.run([*own_user(), *limit], check=True, timeout=SECONDS)
