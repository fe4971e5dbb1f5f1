"""Interleaved timing of contestants until a deadline; one that fails is dropped."""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable
from typing import Any

from bench.frame.rounds import Contestants
from bench.gpu.budget import Deadline

WARM_UPS = 2  # rounds that are not counted
LONGEST_ERROR = 300  # characters


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one contestant.

    Attributes:
        ms: median; None: it failed, or had no time for one counted round.
        fastest, slowest: of all rounds, ms.
        error: its error.
    """

    ms: float | None
    fastest: float | None = None
    slowest: float | None = None
    rounds: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if value not in (None, "")
        }


def in_one_line(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.{LONGEST_ERROR}}"


def interleave(contestants: Contestants, deadline: Deadline, fewest: int = 0) -> dict[str, Timing]:
    """Return median milliseconds of each, in an order drawn anew each round.

    Each must wait for the device itself.

    Args:
        contestants: by name.
        deadline: no round but the first begins after it. The second round counts, instead of
            warming up, if half of the time is used by then.
        fewest: counted rounds that are run even after the deadline, up to its `rounds`.
    """
    half, fewest, done = deadline.remaining / 2, min(fewest, deadline.rounds), 0
    times: dict[str, list[float]] = {name: [] for name in contestants}
    failed: dict[str, str] = {}
    for round_ in range(deadline.rounds + WARM_UPS):
        if round_ and deadline.over and done >= fewest:
            break
        counted = round_ >= WARM_UPS or (round_ > 0 and deadline.remaining <= half)
        done += counted
        running = [name for name in contestants if name not in failed]
        for name in random.sample(running, len(running)):
            begin = deadline.now()
            try:
                contestants[name]()
            except Exception as error:  # libraries raise many types; the report has their messages
                failed[name] = in_one_line(error)
                continue
            if counted:
                times[name].append(1000 * (deadline.now() - begin))
    return {
        name: Timing(None, error=failed[name]) if name in failed else timing(times[name])
        for name in contestants
    }


def one_by_one(
    contestants: Contestants, deadline: Deadline, between: Callable[[], None], fewest: int = 0
) -> dict[str, Timing]:
    """Run each alone on the device: all its rounds, then the next one's.

    `between` runs before each.
    """
    timings: dict[str, Timing] = {}
    for at, (name, call) in enumerate(contestants.items()):
        between()
        timings |= interleave({name: call}, deadline.part(1 / (len(contestants) - at)), fewest)
    return timings


def timing(ms: list[float]) -> Timing:
    """Return the timing of the counted rounds."""
    return Timing(statistics.median(ms), min(ms), max(ms), len(ms)) if ms else Timing(None)
