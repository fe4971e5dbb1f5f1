"""Criteria for flat memory.

The first third is warm-up; of the rest

- the median of the last fifth may exceed that of the first fifth by no more than an allowance,
  and
- the Theil-Sen slope (the median of the slopes between all pairs, which no single peak moves) may
  not amount to more than twice the allowance over that time.

The allowance is 16 MiB or 5 %, whichever is more: the allocator of an unchanged service varies by
that much between two samples.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence

WARM_UP = 1 / 3
ALLOWED_BYTES = 16 << 20
ALLOWED_SHARE = 0.05
LEAST_SAMPLES = 15  # after the warm-up: three in each fifth
MOST_PAIRED = 400  # samples whose pairs are looked at: 80,000 slopes
MIB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory at a time."""

    seconds: float
    resident: int  # bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Flatness:
    """Memory after the warm-up, in bytes.

    Attributes:
        begin: median of the first fifth.
        end: median of the last fifth.
        trend: slope times time.
        peak: most, warm-up included.
    """

    begin: float
    end: float
    trend: float
    peak: int

    @property
    def allowance(self) -> float:
        return max(ALLOWED_BYTES, ALLOWED_SHARE * self.begin)

    def problems(self) -> list[str]:
        """Return the violated criteria; empty: none."""
        found, allowed = [], f"{self.allowance / MIB:.0f} MiB allowed"
        if self.end - self.begin > self.allowance:
            found.append(
                f"memory grew from {self.begin / MIB:.0f} to {self.end / MIB:.0f} MiB, {allowed}"
            )
        if self.trend > 2 * self.allowance:
            found.append(
                f"memory rises by {self.trend / MIB:.0f} MiB over the run, twice {allowed}"
            )
        return found


def flatness(samples: Sequence[Sample]) -> Flatness:
    """Judge samples in the order of their times.

    Raises:
        ValueError: too few to say anything.
    """
    begun = (
        samples[0].seconds + WARM_UP * (samples[-1].seconds - samples[0].seconds)
        if samples
        else 0.0
    )
    warm = [sample for sample in samples if sample.seconds >= begun]
    if len(warm) < LEAST_SAMPLES:
        raise ValueError(f"{len(warm)} samples after the warm-up; {LEAST_SAMPLES} are needed")
    fifth = len(warm) // 5
    return Flatness(
        begin=statistics.median(sample.resident for sample in warm[:fifth]),
        end=statistics.median(sample.resident for sample in warm[-fifth:]),
        trend=_slope(warm) * (warm[-1].seconds - warm[0].seconds),
        peak=max(sample.resident for sample in samples),
    )


def _slope(samples: Sequence[Sample]) -> float:
    """Return the Theil-Sen slope in bytes per second."""
    some = samples[:: -(-len(samples) // MOST_PAIRED)]
    pairs = itertools.combinations(some, 2)
    return statistics.median((b.resident - a.resident) / (b.seconds - a.seconds) for a, b in pairs)
