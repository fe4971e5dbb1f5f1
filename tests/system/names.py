"""A name server for one name.

Replicas come and go, as behind a headless Kubernetes service.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Collection
from typing import cast

NAME = "replicas.test"
ADDRESS = 1  # a question's type: A, of IPv4
AUTHORITATIVE = 0x8580


class Names(asyncio.DatagramProtocol):
    """Server that answers every query with the current addresses, with a TTL of zero.

    Attributes:
        port: on 127.0.0.1, of UDP.
        asked: how often it was asked for addresses.
    """

    def __init__(self, addresses: Callable[[], Collection[str]]) -> None:
        self._addresses = addresses
        self._lost = asyncio.Event()
        self.asked = 0
        self.port = 0

    @classmethod
    async def serve(cls, addresses: Callable[[], Collection[str]]) -> Names:
        """Listen until `close`."""
        loop = asyncio.get_running_loop()
        _, names = await loop.create_datagram_endpoint(
            lambda: cls(addresses), local_addr=("127.0.0.1", 0)
        )
        return names

    async def close(self) -> None:
        self._transport.close()
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        # After the header: the labels of the name, each after its length, a zero, then type
        # and class.
        end = 12
        while data[end]:
            end += 1 + data[end]
        question = data[12 : end + 5]
        (kind,) = struct.unpack(">H", data[end + 1 : end + 3])
        found = self._addresses() if kind == ADDRESS else ()
        self.asked += kind == ADDRESS
        header = data[:2] + struct.pack(">HHHHH", AUTHORITATIVE, 1, len(found), 0, 0)
        answers = (
            struct.pack(">HHHIH4B", 0xC00C, ADDRESS, 1, 0, 4, *map(int, address.split(".")))
            for address in found
        )
        self._transport.sendto(header + question + b"".join(answers), addr)
