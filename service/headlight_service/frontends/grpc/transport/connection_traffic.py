"""The connections of this process: how much each has moved, and closing one.

gRPC for Python tells neither, and has no call that resets one stream of a server: what a caller does
not read would stay in memory for as long as its connection. So the sockets are found in /proc.
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
ACKED_AT = 120  # where they are in Linux' struct tcp_info, since 4.1; the standard library has no names for it


def close_connection(peer: str) -> bool:
    """Close the connection that comes from an address; False where there is none (any more).

    Args:
        peer: as a call's context names it: ipv4:127.0.0.1:40000, ipv6:%5B::1%5D:40000.
    """
    with contextlib.suppress(OSError):  # it has come to its end meanwhile
        for name, connection in _connections():
            if name == peer:
                connection.shutdown(socket.SHUT_RDWR)  # the transport sees its end and frees everything itself
                return True
    return False


def bytes_moved() -> dict[str, tuple[int, int]]:
    """Return, by peer, how much it has ever taken on its connection, and how much has come of it.

    Raises:
        OSError: no more files can be opened.
    """
    moved = dict[str, tuple[int, int]]()
    for peer, connection in _connections():
        with contextlib.suppress(OSError, struct.error):  # an older kernel tells less
            told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            moved[peer] = ACKED_AND_RECEIVED.unpack_from(told, ACKED_AT)
    return moved


def _connections() -> Iterator[tuple[str, socket.socket]]:
    """Yield all of this process, each after the name that gRPC gives to its peer."""
    for name in os.listdir(OPEN_FILES):
        with contextlib.suppress(OSError):  # closed meanwhile, or a socket that is connected to nobody
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            # A copy, so that it cannot become another's between the question and the deed.
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    yield _peer(*copy.getpeername()), copy


def _peer(host: str, port: int, _flow: int = 0, scope: int = 0) -> str:
    """Return gRPC's name of an address: that of IPv4 also where a socket for both families has it."""
    host = host.removeprefix("::ffff:")
    zone = f"%25{scope}" if scope else ""
    return f"ipv6:%5B{host}{zone}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
