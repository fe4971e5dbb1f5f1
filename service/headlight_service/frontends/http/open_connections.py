"""The open connections of the HTTP frontend: at most so many, in whatever state."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class Closable(Protocol):
    """A connection, from the moment at which it is accepted."""

    def abort(self) -> None:
        """Close it at once."""


class OpenConnections:
    """All connections. On the event loop of the server.

    A connection is spare while no whole request of it is being answered: during its TLS handshake,
    without a request, while a request arrives, while its client does not read, and while the rest
    of a refused body is dropped. If there are too many, the spare one that has been so for longest
    is closed: a client that trickles or lingers keeps nobody out.

    Attributes:
        most: limit of their number.
        queued: requests that wait behind another of their connection, of all together.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.queued = 0
        self._open = set[Closable]()
        self._spare = OrderedDict[Closable, None]()  # the longest first

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @property
    def crowded(self) -> bool:
        """Whether there is little room left, so that no time is given away."""
        return len(self._open) > self.most - self.most // 8

    def add(self, connection: Closable) -> None:
        """Count a new connection, which is spare."""
        self._open.add(connection)
        self._spare[connection] = None
        if len(self._open) > self.most:
            self.close_one()  # the new one itself, if the others are busy

    def remove(self, connection: Closable) -> None:
        """Count a connection no longer."""
        self._open.discard(connection)
        self._spare.pop(connection, None)

    def spare(self, connection: Closable, *, first: bool = False) -> None:
        """Mark a connection as spare from now on; `first`: it is closed before the others."""
        if connection in self._open:
            self._spare[connection] = None
            self._spare.move_to_end(connection, last=not first)

    def keep(self, connection: Closable) -> None:
        """Mark a connection as busy: it answers a whole request."""
        self._spare.pop(connection, None)

    def close_one(self) -> bool:
        """Close the connection that has been spare for longest; return False if there is none."""
        if not self._spare:
            return False
        connection = next(iter(self._spare))
        self.remove(connection)  # its end is reported later
        connection.abort()
        return True
