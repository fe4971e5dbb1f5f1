"""Which streams are busy, and with what. Plain data: no event loop, no clock.

What is interactive has all streams, bulk those that it leaves: an interactive batch does not wait for one of bulk, which ends beside
it. One that is the only interactive batch gets all threads, and is done sooner; until then no more of bulk is begun. Else a long text
would take twice as long beside a flood of bulk, on the threads of one stream, as without; and bulk loses only what little is
interactive.
"""

from __future__ import annotations

from typing import NamedTuple

from headlight.wire.priority import Priority


class Started(NamedTuple):
    """A batch that was given a stream."""

    priority: Priority
    wide: bool  # on all threads; until it is done no bulk is begun


class Streams:
    """The streams of a process.

    Attributes:
        hold_bulk: whether no batch of bulk should be begun now. No two batches are wide at once: the second would not be alone.
    """

    def __init__(self, count: int) -> None:
        """All are idle; so many batches of a priority may run at once."""
        self._count = count
        self._running: dict[Priority, int] = {"interactive": 0, "bulk": 0}
        self.hold_bulk = False

    @property
    def running(self) -> int:
        """How many batches run."""
        return sum(self._running.values())

    def idle(self, priority: Priority) -> int:
        """How many batches of a priority could be begun."""
        taken = self._running["interactive"]
        return self._count - taken if priority == "interactive" else max(0, self._count - taken - self._running["bulk"])

    def begin(self, priority: Priority, interactive: int, can_be_wide: bool) -> Started:
        """A batch takes a stream.

        Args:
            priority: its own.
            interactive: items that are left in the queue and are interactive.
            can_be_wide: whether there is a session that gives it all threads.
        """
        alone = priority == "interactive" and not self._running["interactive"] and not interactive
        started = Started(priority, wide=alone and can_be_wide)
        self._running[priority] += 1
        self.hold_bulk = self.hold_bulk or started.wide
        return started

    def end(self, started: Started) -> None:
        """It is done."""
        self._running[started.priority] -= 1
        self.hold_bulk = self.hold_bulk and not started.wide
