"""Bodies of requests while they arrive: their bytes, and the share of each client."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import Any

from headlight.errors import Overloaded
from headlight_service.core.admission.admission_control import Admission

# After a refusal, so much more is read: if the connection were closed at once, the client could
# lose the response, which explains it.
LINGER_BYTES = 256 << 20


class ArrivingBodies:
    """All bodies that arrive. Their bytes are taken from the process's admission as they come.

    On the event loop of the server.
    """

    def __init__(self, admission: Callable[[], Admission]) -> None:
        """Take bytes from what `admission` returns once the first body comes."""
        self.admission = admission
        self.held = Counter[str]()  # bytes, by client

    def body(self, client: str) -> ArrivingBody:
        """Return the bytes of one more body, none of which has come yet."""
        return ArrivingBody(self, client)


class ArrivingBody:
    """The bytes of one body that have come, until the core takes its request.

    Attributes:
        error: the reason why it was refused; the rest of it is dropped.
    """

    __slots__ = ("_all", "_client", "_dropped", "_dropping", "_size", "error")

    def __init__(self, bodies: ArrivingBodies, client: str) -> None:
        self._all, self._client = bodies, client
        self._size = self._dropped = 0
        self._dropping = False
        self.error: Overloaded | None = None

    @property
    def endless(self) -> bool:
        """Whether so much was dropped that the rest is not awaited."""
        return self._dropped > LINGER_BYTES

    def take(self, size: int) -> bool:
        """Take bytes that have come; return False if they are to be dropped."""
        if self._dropping:
            self._dropped += size
            return False
        held = self._all.held
        try:
            self._all.admission().take_arriving(size, self._size, held[self._client] - self._size)
        except Overloaded as error:
            self.error = error
            self.drop()
            return False
        held[self._client] += size
        self._size += size
        return True

    def drop(self) -> None:
        """Give the bytes back, and take no more."""
        self._dropping = True
        self.release()

    def release(self) -> None:
        """Give the bytes back: the core has them, or nobody needs them."""
        if self._size:
            self._all.admission().give_arriving(self._size)
            self._all.held[self._client] -= self._size
            if not self._all.held[self._client]:
                del self._all.held[self._client]
            self._size = 0


def address_of(peer: Any) -> str:
    """Return the part of a peer's address that is one client's: of IPv6 the network, /64."""
    host = str(peer[0]) if peer else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host
