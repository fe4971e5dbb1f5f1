"""Closing a caller's connection: the one way to take an answer back from a transport that cannot send it.

gRPC for Python has no call that resets a single stream of a server. What a caller does not read would stay in memory, and its
call alive, for as long as the connection.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
from typing import Any
from urllib.parse import unquote

OPEN_FILES = "/proc/self/fd"


def close_connection(peer: str) -> bool:
    """Close the connection that comes from an address; False where there is none (any more).

    Args:
        peer: as a call's context names it: ipv4:127.0.0.1:40000, ipv6:%5B::1%5D:40000.
    """
    family, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return False
    wanted = (_plain(host.strip("[]")), int(port))
    return any(_close_if(int(name), wanted) for name in os.listdir(OPEN_FILES))


def _close_if(descriptor: int, wanted: tuple[str, int]) -> bool:
    """Shut a socket down that is connected to this address. The transport sees its end and frees everything itself."""
    with contextlib.suppress(OSError):  # closed meanwhile, or a socket that is connected to nobody
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        # Of a copy, so that it cannot become another's between the question and the deed.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            peer: Any = copy.getpeername()
            if copy.family in (socket.AF_INET, socket.AF_INET6) and (_plain(peer[0]), peer[1]) == wanted:
                copy.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _plain(host: str) -> str:
    """One spelling for each address: a socket for both families shows IPv4 ones as IPv6, gRPC does not."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
