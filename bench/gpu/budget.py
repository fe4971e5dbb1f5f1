"""Time budget: a total for the run, shares for sections, and a watchdog that ends a hanging run.

Later sections get unused time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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


STOP_SECONDS = 5  # for those processes to end by themselves


@contextlib.contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """End this process, with status 1 and all stack traces, if the block takes longer.

    A thread does it: the main one, waiting for a device, would miss a signal. If no Python thread
    can run, faulthandler does it a while later, but ends no child processes.
    """
    ending = threading.Timer(seconds, _end, (seconds,))
    ending.daemon = True
    faulthandler.dump_traceback_later(seconds + 3 * STOP_SECONDS, exit=True)
    ending.start()
    try:
        yield
    finally:
        ending.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(seconds: float) -> None:
    faulthandler.dump_traceback(all_threads=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + STOP_SECONDS
        for child in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        while children() and time.monotonic() < until:
            time.sleep(0.05)
    print(
        f"ended: not done after {seconds:.0f} s; what was measured is written",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


def children() -> list[int]:
    """Return the ids of this process's running children."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            # The name, in brackets, may hold anything; the state and the parent follow it.
            state, parent = (
                path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            )
            if int(parent) == os.getpid() and state != "Z":
                pids.append(int(path.parent.name))
    return pids
