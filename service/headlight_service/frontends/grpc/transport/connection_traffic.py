"""Connections of this process: the bytes that each has moved, and closing one.

gRPC for Python reports neither. It also has no call that resets one stream of a server: an answer
that a client does not read would stay in memory as long as its connection. So the sockets are found
in /proc.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator

OPEN_FILES = "/proc/self/fd"
ACKED_AND_RECEIVED = struct.Struct("=QQ")
ACKED_AT = 120  # offset in Linux' struct tcp_info, since 4.1; it has no name in the library


def close_connection(peer: str) -> bool:
    """Close the connection of a peer; return False if there is none (any more).

    Args:
        peer: as a call's context names it: ipv4:127.0.0.1:40000, ipv6:%5B::1%5D:40000.
    """
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for name, connection in _connections():
            if name == peer:
                # The transport notices its end and frees everything itself.
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False


def bytes_moved() -> dict[str, tuple[int, int]]:
    """Return, by peer, the bytes that it has acknowledged on its connection, and those received.

    Raises:
        OSError: no more files can be opened.
    """
    moved = dict[str, tuple[int, int]]()
    for peer, connection in _connections():
        with contextlib.suppress(OSError, struct.error):  # an older kernel reports less
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            moved[peer] = ACKED_AND_RECEIVED.unpack_from(info, ACKED_AT)
    return moved


def _connections() -> Iterator[tuple[str, socket.socket]]:
    """Yield all connections of this process, each after gRPC's name of its peer."""
    for name in os.listdir(OPEN_FILES):
        with contextlib.suppress(OSError):  # closed meanwhile, or an unconnected socket
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            # A copy: the descriptor cannot become another's before it is used.
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    yield _peer(*copy.getpeername()), copy


def _peer(host: str, port: int, _flow: int = 0, scope: int = 0) -> str:
    """Return gRPC's name of an address; also of an IPv4 address in IPv6 form."""
    host = host.removeprefix("::ffff:")
    zone = f"%25{scope}" if scope else ""
    return f"ipv6:%5B{host}{zone}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
