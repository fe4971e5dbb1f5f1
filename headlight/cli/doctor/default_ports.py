"""Ports of the service on this machine: free, of Headlight, or of something else; and their start.

A service opens its gRPC port once its model is loaded. Until then /readyz of its metrics port has
the step of the start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import re
import socket
import sys
import time

from headlight.client.connection_advice import exempt, proxy_variable
from headlight.client.sync_client import Client
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    Reason,
    Unauthenticated,
    Unavailable,
)

HOST, GRPC_PORT, API_PORT, METRICS_PORT = "127.0.0.1", 50051, 8000, 8080
SECONDS = 3.0
MOST_BYTES = 1 << 20  # of a page
STARTING = re.compile(r"starting, gRPC port (\d+): (.*)")  # on /readyz


@dataclasses.dataclass(frozen=True)
class Port:
    """One port.

    Attributes:
        address: host:port.
        purpose: "gRPC", "HTTP" or "metrics".
        state: "free", "headlight" or "other".
        detail: the model that answers, or what is known of the other.
    """

    address: str
    purpose: str
    state: str
    detail: str = ""


def default_ports() -> list[Port]:
    """Try the three ports."""
    return [grpc_port(GRPC_PORT), api_port(API_PORT), metrics_port(METRICS_PORT)]


def grpc_port(number: int) -> Port:
    """Ask whether a Headlight service answers on a port of gRPC."""
    address = f"{HOST}:{number}"
    if is_free(number):
        # A service that starts has the port already, but does not listen.
        step = step_of_start(number)
        detail = "" if step is None else f"a service that starts: {step}"
        return Port(address, "gRPC", "headlight" if detail else "free", detail)
    if (proxy := proxy_variable(address)) is not None:
        detail = f"not tried: calls go through the proxy of {proxy}; {exempt(address)}"
        return Port(address, "gRPC", "other", detail)
    return Port(address, "gRPC", *_answer_of_grpc(address))


def _answer_of_grpc(address: str) -> tuple[str, str]:
    """Return the state and the detail of a port in use."""
    try:
        with Client(address, timeout=SECONDS, wait_for_ready=0) as client:
            model = client.model()
    except Unauthenticated:
        return "headlight", "a service that wants a token"
    except Unavailable as error:
        if error.refusal.reason is Reason.LOADING:
            return "headlight", "a service that loads its model"
        return "other", "in use: no gRPC in plaintext answers there"
    except HeadlightError:
        return "other", "in use: no Headlight service answers there"
    return "headlight", f"{model.name}, {model.precision} on {model.provider}"


def api_port(number: int) -> Port:
    """Ask whether the HTTP interface of a Headlight service is on a port."""
    return _http_port(number, "HTTP", "/openapi.json", b'"Headlight"', "the HTTP of a service")


def metrics_port(number: int) -> Port:
    """Ask whether the metrics of a Headlight service are on a port."""
    health = "metrics and health of a service"
    return _http_port(number, "metrics", "/metrics", b"headlight_", health)


def _http_port(number: int, purpose: str, path: str, mark: bytes, detail: str) -> Port:
    """Ask whether the page at a path holds the mark of a Headlight service."""
    address = f"{HOST}:{number}"
    if is_free(number):
        return Port(address, purpose, "free")
    if mark in _page(number, path):
        return Port(address, purpose, "headlight", detail)
    return Port(address, purpose, "other", "in use: no Headlight service answers there")


def step_of_start(number: int) -> str | None:
    """Return the step of the service that will open a gRPC port; None: none is known."""
    # Another program may answer there, with any bytes.
    match = STARTING.fullmatch(_page(METRICS_PORT, "/readyz").decode("utf-8", "replace").strip())
    if match is None or int(match[1]) != number or not match[2].isprintable():
        return None
    return match[2]


def _page(number: int, path: str) -> bytes:
    """Return the page at a path, whatever its status; empty: nothing answers."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(HOST, number, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read(MOST_BYTES)
    return b""


def is_free(number: int) -> bool:
    """Return whether nothing listens on a port of this machine."""
    try:
        socket.create_connection((HOST, number), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\]):(\d+)")
POLL_SECONDS = 0.5
ANSWER_SECONDS = 2.0


def wait_for_start(target: str, timeout: float | None) -> None:
    """Wait while a local service starts, and print its steps on standard error.

    Return at once if something listens at the target, or nothing that starts is known.

    Raises:
        DeadlineExceeded: it still starts after `timeout` seconds; None: wait until it ends.
    """
    local = LOCAL.fullmatch(target)
    if local is None:
        return
    port = int(local[1])
    until = None if timeout is None else time.monotonic() + timeout
    shown = ""
    while not _listens(port) and (step := step_of_start(port)) is not None:
        if step != shown:
            print(f"waiting for the service at {target}, which starts: {step}", file=sys.stderr)
            shown = step
        if until is not None and time.monotonic() >= until:
            raise DeadlineExceeded(f"the service at {target} still starts: {step}")
        time.sleep(POLL_SECONDS)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), ANSWER_SECONDS).close()
    except (OSError, OverflowError):
        return False
    return True
