"""Verdicts: given only if every seed agrees."""

from __future__ import annotations

import pytest

from lab.page.verdicts import Finding, Unseen, at_least, at_most, every, less, said
from lab.results import Range


@pytest.mark.parametrize(
    ("one", "other", "finding"),
    [
        ([0.1, 0.2], [0.3, 0.4], True),
        ([0.3, 0.4], [0.1, 0.2], False),
        ([0.1, 0.3], [0.2, 0.4], Unseen.DISAGREE),  # only the mean is less
        ([0.1, 0.4], [0.2, 0.3], Unseen.DISAGREE),
        ([0.2], [0.2], False),
    ],
)
def test_less_requires_ranges_that_do_not_overlap(
    one: list[float], other: list[float], finding: Finding
) -> None:
    assert less(Range.of(one), Range.of(other)) is finding


@pytest.mark.parametrize(
    ("values", "reached", "kept"),
    [
        ([0.5, 0.6], True, Unseen.DISAGREE),
        ([0.4, 0.5], Unseen.DISAGREE, True),
        ([0.4, 0.6], Unseen.DISAGREE, Unseen.DISAGREE),
        ([0.5], True, True),
        ([0.6], True, False),
        ([0.4], False, True),
    ],
)
def test_a_bound_must_hold_for_every_seed(
    values: list[float], reached: Finding, kept: Finding
) -> None:
    assert at_least(Range.of(values), 0.5) is reached
    assert at_most(Range.of(values), 0.5) is kept


def test_a_failed_condition_decides_before_an_unseen_one() -> None:
    assert every([True, True]) is True
    assert every([True, Unseen.NOT_LEARNT, False]) is False
    assert every([True, Unseen.DISAGREE]) is Unseen.DISAGREE
    assert every([Unseen.DISAGREE, Unseen.NOT_LEARNT, True]) is Unseen.NOT_LEARNT


def test_every_verdict_has_its_own_words() -> None:
    assert len({said(each) for each in (True, False, *Unseen)}) == 2 + len(Unseen)
