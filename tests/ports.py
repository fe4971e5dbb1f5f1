"""Free ports, for programs that must be given one before they listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port that was free a moment ago, at any address of this machine."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


def free_address() -> str:
    """Return a free host:port of loopback."""
    return f"127.0.0.1:{free_port()}"
