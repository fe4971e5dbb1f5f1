"""Verdicts on predictions.

A verdict is given only if all seeds agree; otherwise the reason is given.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lab.results import Range


class Unseen(enum.Enum):
    """Reason for a missing verdict."""

    # The accuracy at the training length is too low to measure a loss.
    NOT_LEARNT = "not learnt, so not seen"
    AT_FLOOR = "cannot be seen: all at the baseline"  # no better than without positions
    AT_CEILING = "cannot be seen: nothing to gain"
    DISAGREE = "seeds disagree"  # it holds for some, or ranges overlap


Finding = bool | Unseen
Verdict = tuple[Finding, str]  # with the figures
NEAR = 0.05  # accuracies closer than this count as equal
NOISE = 0.01  # of an accuracy of thousands of answers
ERRORS = 2.0  # standard errors that an accuracy of few answers may be off by
# Accuracy at the training length from which a question counts as learnt; below it there is little
# to lose.
LEARNT = 0.8


def less(one: Range | float, other: Range | float) -> Finding:
    """Return whether one is less than the other for all seeds.

    Ranges that overlap decide nothing.
    """
    a, b = (each if isinstance(each, Range) else Range.of([each]) for each in (one, other))
    if a.most < b.least:
        return True
    return False if a.least >= b.most else Unseen.DISAGREE


def at_least(value: Range, bound: float) -> Finding:
    """Return whether every seed reaches a bound; False if none does."""
    return _not(less(value, bound))


def at_most(value: Range, bound: float) -> Finding:
    """Return whether no seed exceeds a bound; False if all do."""
    return _not(less(bound, value))


def _not(finding: Finding) -> Finding:
    return finding if isinstance(finding, Unseen) else not finding


def every(findings: Iterable[Finding]) -> Finding:
    """Return False if a finding fails, else the first missing verdict, else True."""
    distinct = set(findings)
    return next((each for each in (False, *Unseen) if each in distinct), True)


def said(finding: Finding) -> str:
    """Return "yes", "no" or the reason for a missing verdict."""
    if isinstance(finding, Unseen):
        return finding.value
    return "yes" if finding else "no"


def percent(value: float) -> str:
    """Format a share as per cent, without the sign."""
    return f"{100 * value:.1f}"


def listed(ranges: Mapping[str, Range]) -> str:
    """Format figures by name, with their ranges."""
    return ", ".join(f"{name} {each.percent()}" for name, each in ranges.items())


def series(by_name: Mapping[str, Sequence[Range]]) -> str:
    """Format means by length, for each name."""
    return "; ".join(
        f"{name} {' → '.join(percent(each.mean) for each in ranges)}"
        for name, ranges in by_name.items()
    )


NOTES, CRITERION, OURS = "notes", "criterion", "ours"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One prediction.

    Attributes:
        text: what was expected.
        source: NOTES, made before the lab; CRITERION, a goal of the lab; OURS, made while it was
            built.
        check: returns whether it holds in some results, and the figures that show it.
    """

    text: str
    source: str
    check: Callable[[Mapping[str, Any]], Verdict]
