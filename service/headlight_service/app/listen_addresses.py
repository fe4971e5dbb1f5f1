"""Addresses to listen on: binding them, and the reason if that fails."""

from __future__ import annotations

import contextlib
import errno
import socket
from operator import itemgetter

import grpc

from headlight_service.config.command_line import ConfigError
from headlight_service.config.option_types import Address
from headlight_service.frontends.grpc.transport.grpc_server import GrpcServer

REASONS = {
    errno.EADDRINUSE: (
        "is in use; stop the process that listens there, or choose another port (0 takes any free "
        "one)"
    ),
    errno.EADDRNOTAVAIL: (
        "is not an address of this machine; give one that is, or 0.0.0.0 or [::] for all of them"
    ),
    errno.EACCES: "is not for this user; choose a port from 1024 on",
}


class PortTaken(Exception):
    """An address cannot be listened on; the message names it, and the reason."""


def taken(option: str, address: Address) -> socket.socket:
    """Return a socket bound to the address, which does not listen.

    Other sockets can still bind the address with SO_REUSEADDR.

    Raises:
        PortTaken: the address is in use, or not of this machine.
        ConfigError: there is no host of this name.
    """
    try:
        addresses = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # If a name has several addresses, IPv4 before IPv6.
        family, kind, protocol, _, where = min(addresses, key=itemgetter(0))
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            stack.pop_all()
            return listener
    except OSError as error:
        # EAI_AGAIN is an error of the resolver, not of the name.
        if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
            raise ConfigError(
                f"{option} is {address}; the host is not found ({error.strerror}); "
                "give an address of this machine"
            ) from None
        reason = REASONS.get(error.errno or 0, f"cannot be listened on: {error.strerror}")
        raise PortTaken(f"{option} {address} {reason}") from None


def bind(
    server: GrpcServer,
    address: Address,
    credentials: grpc.ServerCredentials | None = None,
    option: str = "--grpc",
) -> int:
    """Listen and return the port; None as credentials: plaintext. Raises the errors of `taken`."""
    # gRPC does not report the reason of a failure, so this socket is tried first.
    with taken(option, address):
        try:
            return server.bind(str(address), credentials)
        except RuntimeError:
            raise PortTaken(
                f"{option} {address} cannot be listened on; set GRPC_VERBOSITY=ERROR to see why"
            ) from None
