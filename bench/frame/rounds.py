"""Rounds: contestants take turns, so that a busy machine slows all alike; medians and ratios."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Contestants = dict[str, Callable[[], object]]


def turns(everyone: Sequence[T], rounds: int, warm_up: int = 1) -> Iterator[tuple[int, T]]:
    """Yield each with the number of the round, in an order drawn anew for each round.

    Rounds of warm-up, which do not count, come first and have negative numbers.
    """
    for number in range(-warm_up, rounds):
        for one in random.sample(everyone, len(everyone)):
            yield number, one


def times(contestants: Contestants, rounds: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Return the milliseconds of each contestant in each round that counts."""
    by_name: dict[str, list[float]] = {name: [] for name in contestants}
    for number, name in turns(list(contestants), rounds, warm_up):
        begin = time.perf_counter()
        contestants[name]()
        if number >= 0:
            by_name[name].append(1000 * (time.perf_counter() - begin))
    return by_name


def medians(contestants: Contestants, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each contestant, after two rounds of warm-up."""
    by_name = times(contestants, rounds, warm_up=2)
    return {name: statistics.median(values) for name, values in by_name.items()}


class Spread(NamedTuple):
    """Median of the rounds, their least and their largest."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio of each round: a slower machine changes both."""
    return [one / other for one, other in zip(ours, others, strict=False)]
