"""A caller's connection: how much it has taken, and closing it.

That is the one way to take an answer back from a transport that cannot send it.

gRPC for Python has no call that resets a single stream of a server. What a caller does not read would stay in memory, and its
call alive, for as long as the connection.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

Address: TypeAlias = tuple[str, int]
OPEN_FILES = "/proc/self/fd"
SPARED = 9  # times as long as a look at all connections took, there is no other
BYTES_ACKED, BYTES_RECEIVED = 120, 128  # where they are in Linux' struct tcp_info, since 4.1


def close_connection(peer: str) -> bool:
    """Close the connection that comes from an address; False where there is none (any more).

    Args:
        peer: as a call's context names it: ipv4:127.0.0.1:40000, ipv6:%5B::1%5D:40000.
    """
    wanted = _address(peer)
    with contextlib.suppress(OSError):  # it has come to its end meanwhile
        for address, connection in _connections():
            if address == wanted:
                connection.shutdown(socket.SHUT_RDWR)  # the transport sees its end and frees everything itself
                return True
    return False


def bytes_taken(peer: str) -> int | None:
    """How much the machine at the other end has taken of what was ever sent on a connection; None where that is not known, or not yet.

    Args:
        peer: as `close_connection` takes it.
    """
    return _acked.of(peer)


def bytes_received(peer: str) -> int | None:
    """How much has ever come on a connection; else as `bytes_taken`."""
    return _received.of(peer)


class _Traffic:
    """What each connection has told of itself a moment ago. All are looked at together: many are asked about at the same time."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._known: dict[Address, int] = {}
        self._stale = -math.inf

    def of(self, peer: str) -> int | None:
        begun = time.monotonic()
        if begun >= self._stale:
            with contextlib.suppress(OSError):  # no more files can be opened
                self._known = dict(self._each())
            now = time.monotonic()
            self._stale = now + SPARED * (now - begun)
        address = _address(peer)
        return None if address is None else self._known.get(address)

    def _each(self) -> Iterator[tuple[Address, int]]:
        for address, connection in _connections():
            with contextlib.suppress(OSError):
                told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if len(told) >= self._place + 8:
                    yield address, int(struct.unpack_from("=Q", told, self._place)[0])


_acked, _received = _Traffic(BYTES_ACKED), _Traffic(BYTES_RECEIVED)


def _address(peer: str) -> Address | None:
    family, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    return (_plain(host.strip("[]")), int(port)) if family in ("ipv4", "ipv6") and port.isdecimal() else None


def _connections() -> Iterator[tuple[Address, socket.socket]]:
    """All of this process, and the addresses that they come from."""
    for name in os.listdir(OPEN_FILES):
        with contextlib.suppress(OSError):  # closed meanwhile, or a socket that is connected to nobody
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            # A copy, so that it cannot become another's between the question and the deed.
            with socket.socket(fileno=os.dup(int(name))) as copy:
                found: Any = copy.getpeername()
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    yield (_plain(found[0]), found[1]), copy


def _plain(host: str) -> str:
    """One spelling for each address: a socket for both families shows IPv4 ones as IPv6, gRPC does not."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
