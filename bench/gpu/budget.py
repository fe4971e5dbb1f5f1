"""Time: so much for the whole run, a share of it for each section, and what a section leaves for those behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Clock = Callable[[], float]


MOST_ROUNDS = 30


class Deadline:
    """A moment that work must not pass.

    Attributes:
        rounds: what is done again and again until then is done no more often than this.
    """

    def __init__(self, seconds: float, clock: Clock = time.monotonic, rounds: int = MOST_ROUNDS) -> None:
        self._clock, self._end, self.rounds = clock, clock() + seconds, rounds

    def now(self) -> float:
        """Seconds, by the same clock."""
        return self._clock()

    def extend(self, seconds: float) -> None:
        """Give back what something else than the work took."""
        self._end += seconds

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        return self.left <= 0

    def part(self, share: float) -> Deadline:
        """For the next piece of work: a share, up to 1, of what is left."""
        return Deadline(self.left * share, self._clock, self.rounds)


class Budget:
    """The time of a run.

    Attributes:
        cut: sections and what of them there was no time for, in words.
    """

    def __init__(
        self,
        seconds: float,
        shares: Mapping[str, float],
        clock: Clock = time.monotonic,
        rounds: int = MOST_ROUNDS,
    ) -> None:
        """Shares of the sections are relative to each other; each section takes its own of what is left when it begins."""
        self._clock, self._whole, self._rounds = clock, Deadline(seconds, clock), rounds
        self._waiting = dict(shares)
        self.cut: dict[str, list[str]] = {}

    @property
    def left(self) -> float:
        return self._whole.left

    @contextmanager
    def section(self, name: str) -> Iterator[Deadline]:
        """A section's own time: what one before it did not need is shared by all that are left."""
        share = self._waiting.pop(name)
        whole = share + sum(self._waiting.values())
        yield Deadline(self.left * share / whole, self._clock, self._rounds)

    def skip(self, section: str, what: str) -> None:
        """Note that there was no time for something."""
        self.cut.setdefault(section, []).append(what)


class Allowance:
    """Seconds that may be spent on something whose price is known only afterwards: compiling.

    Attributes:
        used: by now.
    """

    def __init__(self, seconds: float, clock: Clock = time.monotonic, within: Deadline | None = None) -> None:
        """`within`: of the time of a section, of which no more can be spent than is left."""
        self.used, self._seconds, self._clock, self._within = 0.0, seconds, clock, within

    @property
    def left(self) -> float:
        """Seconds; below 0 where something cost more than was thought."""
        left = self._seconds - self.used
        return left if self._within is None else min(left, self._within.left)

    @contextmanager
    def spent(self, taken: list[float]) -> Iterator[None]:
        """Take off what happens in here took, and append it to `taken`."""
        begin = self._clock()
        try:
            yield
        finally:
            taken.append(self._clock() - begin)
            self.used += taken[-1]
