"""Stall timeouts: how long a peer may take to send a request, or to read an answer."""

from __future__ import annotations

import dataclasses

PACE_BYTES = 16 << 20  # bytes that give a peer `stall_seconds` more: 0.8 MB/s at 20 s


def allowance(stall_seconds: float, size: int) -> float:
    """Return the seconds in which so many bytes must move; an occasional byte is too little."""
    return stall_seconds * (1 + size / PACE_BYTES)


@dataclasses.dataclass(slots=True)
class ReplyTimeout:
    """Reply timeout of one answer. Only the waits count, not the time between frames."""

    stall_seconds: float
    taken: int = 0
    waited: float = 0.0

    @property
    def remaining(self) -> float:
        """Seconds for the next frame."""
        return min(self.stall_seconds, allowance(self.stall_seconds, self.taken) - self.waited)

    def took(self, size: int, seconds: float) -> None:
        """Count bytes that were taken, and the seconds of the wait."""
        self.taken += size
        self.waited += seconds
