"""Ports for those who have to be told one before they listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that nobody listened on a moment ago, at any address of this machine."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


def free_address() -> str:
    """host:port of loopback."""
    return f"127.0.0.1:{free_port()}"
