"""Default ports of the service on this machine: free, a Headlight service, or something else."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import socket

from headlight.client.sync_client import Client
from headlight.errors import HeadlightError, Unauthenticated, Unavailable

HOST, GRPC_PORT, HTTP_PORT = "127.0.0.1", 50051, 8080
SECONDS = 3.0
METRIC = b"headlight_"  # begins the names of our metrics
MOST_BYTES = 1 << 20  # of a page of metrics


@dataclasses.dataclass(frozen=True)
class Port:
    """One port.

    Attributes:
        address: host:port.
        purpose: "gRPC" or "HTTP".
        state: "free", "headlight" or "other".
        detail: the model that answers, or what is known of the other.
    """

    address: str
    purpose: str
    state: str
    detail: str = ""


def default_ports(grpc: int = GRPC_PORT, http_port: int = HTTP_PORT) -> list[Port]:
    """Try both ports."""
    return [grpc_port(grpc), http_port_of(http_port)]


def grpc_port(number: int) -> Port:
    """Ask whether a Headlight service answers on a port of gRPC."""
    address = f"{HOST}:{number}"
    if is_free(number):
        return Port(address, "gRPC", "free")
    try:
        with Client(address, timeout=SECONDS, wait_for_ready=0) as client:
            model = client.model()
    except Unauthenticated:
        return Port(address, "gRPC", "headlight", "a service that wants a token")
    except Unavailable as error:
        if "being loaded" in error.message:
            return Port(address, "gRPC", "headlight", "a service that loads its model")
        return Port(address, "gRPC", "other", "in use: no gRPC in plaintext answers there")
    except HeadlightError:
        return Port(address, "gRPC", "other", "in use: no Headlight service answers there")
    return Port(
        address, "gRPC", "headlight", f"{model.name}, {model.precision} on {model.provider}"
    )


def http_port_of(number: int) -> Port:
    """Ask whether the metrics of a Headlight service are on a port of HTTP."""
    address = f"{HOST}:{number}"
    if is_free(number):
        return Port(address, "HTTP", "free")
    page = b""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(HOST, number, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read(MOST_BYTES)
    if METRIC in page:
        return Port(address, "HTTP", "headlight", "metrics and health of a service")
    return Port(address, "HTTP", "other", "in use: no Headlight service answers there")


def is_free(number: int) -> bool:
    """Return whether nothing listens on a port of this machine."""
    try:
        socket.create_connection((HOST, number), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False
