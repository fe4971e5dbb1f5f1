"""Whether something came out as expected.

Said if every seed says it; otherwise the reason is said.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from headlight_model.lab.results import Range


class Unseen(enum.Enum):
    """Why there is no verdict."""

    # At the length of the training a scheme answers too little to lose anything.
    NOT_LEARNT = "not learnt, so not seen"
    AT_FLOOR = "cannot be seen: all at the floor"  # who knows no places answers as much
    AT_CEILING = "cannot be seen: nothing to gain"
    DISAGREE = "seeds disagree"  # it holds for some, or ranges overlap


Finding = bool | Unseen
Verdict = tuple[Finding, str]  # and the figures
NEAR = 0.05  # accuracies less far apart count as alike
NOISE = 0.01  # of an accuracy of thousands of answers
ERRORS = 2.0  # standard errors that an accuracy of few answers may be off by
# Of what a scheme answers rightly at the length of its training; who answers less has nothing to
# lose.
LEARNT = 0.8


def less(one: Range | float, other: Range | float) -> Finding:
    """Whether one is less than the other, whatever the seeds.

    Ranges that overlap decide nothing.
    """
    a, b = (each if isinstance(each, Range) else Range.of([each]) for each in (one, other))
    if a.most < b.least:
        return True
    return False if a.least >= b.most else Unseen.DISAGREE


def at_least(found: Range, bound: float) -> Finding:
    """Whether every seed reaches a bound; False where none does."""
    return _not(less(found, bound))


def at_most(found: Range, bound: float) -> Finding:
    """Whether no seed goes beyond a bound; False where all do."""
    return _not(less(bound, found))


def _not(finding: Finding) -> Finding:
    return finding if isinstance(finding, Unseen) else not finding


def every(findings: Iterable[Finding]) -> Finding:
    """Whether all hold: one that fails decides, and then what cannot be seen."""
    found = set(findings)
    return next((each for each in (False, *Unseen) if each in found), True)


def said(finding: Finding) -> str:
    """For people."""
    if isinstance(finding, Unseen):
        return finding.value
    return "yes" if finding else "no"


def percent(value: float) -> str:
    """For people."""
    return f"{100 * value:.1f}"


def listed(found: Mapping[str, Range]) -> str:
    """With their ranges."""
    return ", ".join(f"{name} {each.percent()}" for name, each in found.items())


def series(found: Mapping[str, Sequence[Range]]) -> str:
    """Means by length."""
    return "; ".join(
        f"{name} {' → '.join(percent(each.mean) for each in ranges)}"
        for name, ranges in found.items()
    )
