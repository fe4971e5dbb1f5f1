"""Time budget: a total for the run, and shares for sections; later ones get unused time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Clock = Callable[[], float]


MOST_ROUNDS = 30


class Deadline:
    """Deadline of some work.

    Attributes:
        rounds: the most rounds of repeated work until then.
    """

    def __init__(
        self, seconds: float, clock: Clock = time.monotonic, rounds: int = MOST_ROUNDS
    ) -> None:
        self._clock, self._end, self.rounds = clock, clock() + seconds, rounds

    def now(self) -> float:
        """Return seconds by the same clock."""
        return self._clock()

    def extend(self, seconds: float) -> None:
        """Add back time that other things than the work took."""
        self._end += seconds

    @property
    def remaining(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        return self.remaining <= 0

    def part(self, share: float) -> Deadline:
        """Return the deadline of the next piece of work: a share, up to 1, of the time left."""
        return Deadline(self.remaining * share, self._clock, self.rounds)


class Budget:
    """Time of a run.

    Attributes:
        cut: sections, and their parts that had no time, in words.
    """

    def __init__(
        self,
        seconds: float,
        shares: Mapping[str, float],
        clock: Clock = time.monotonic,
        rounds: int = MOST_ROUNDS,
    ) -> None:
        """Take the sections' relative shares.

        Each section has its share of the time left when it begins.
        """
        self._clock, self._whole, self._rounds = clock, Deadline(seconds, clock), rounds
        self._waiting = dict(shares)
        self.cut: dict[str, list[str]] = {}

    @property
    def remaining(self) -> float:
        return self._whole.remaining

    @contextmanager
    def section(self, name: str) -> Iterator[Deadline]:
        """Yield a section's deadline.

        Unused time of earlier sections is shared by all that are left.
        """
        share = self._waiting.pop(name)
        whole = share + sum(self._waiting.values())
        yield Deadline(self.remaining * share / whole, self._clock, self._rounds)

    def skip(self, section: str, what: str) -> None:
        """Record that something had no time."""
        self.cut.setdefault(section, []).append(what)


class Allowance:
    """Seconds for work of unknown cost: compiling.

    Attributes:
        used: so far.
    """

    def __init__(
        self, seconds: float, clock: Clock = time.monotonic, within: Deadline | None = None
    ) -> None:
        """Take the seconds, and a section's deadline `within`, which also limits the allowance."""
        self.used, self._seconds, self._clock, self._within = 0.0, seconds, clock, within

    @property
    def remaining(self) -> float:
        """Seconds; below 0 if something cost more than expected."""
        left = self._seconds - self.used
        return left if self._within is None else min(left, self._within.remaining)

    @contextmanager
    def timed(self, taken: list[float]) -> Iterator[None]:
        """Subtract the time of the block, and append it to `taken`."""
        begin = self._clock()
        try:
            yield
        finally:
            taken.append(self._clock() - begin)
            self.used += taken[-1]
