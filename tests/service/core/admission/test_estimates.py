from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_service.core.admission.estimates import LONGEST, WORTH, Expected, WaitEstimate

PATIENCE = 2.0


def outlook_of(waits: list[float], before: float = 1.0, patience: float = PATIENCE) -> WaitEstimate:
    """After waits of so many seconds where `before` and .1 of its own were expected."""
    outlook = WaitEstimate(streams=1)
    for seconds in waits:
        outlook.waited(
            Expected(before, 0.1, patience), "interactive", seconds, answered=seconds < math.inf
        )
    return outlook


def latest(outlook: WaitEstimate) -> float:
    return outlook.latest(Expected(1.0, 0.1, PATIENCE), "interactive")


def test_the_rate_is_that_of_all_streams() -> None:
    outlook = WaitEstimate(streams=2)
    assert outlook.seconds(100) == 0.0, "none is known yet"
    outlook.worked_off(tokens=100, seconds=1.0)
    assert outlook.seconds(100) == pytest.approx(0.5)


def test_at_first_waits_are_taken_to_be_as_expected() -> None:
    assert latest(outlook_of([])) == pytest.approx(1.1)


def test_a_wide_batch_has_the_threads_of_all_streams() -> None:
    outlook = WaitEstimate(streams=4)
    outlook.worked_off(tokens=100, seconds=1.0, wide=True)
    assert outlook.seconds(100) == pytest.approx(1.0)


def test_who_came_late_for_the_batch_that_was_running_says_nothing_of_the_queue() -> None:
    outlook = WaitEstimate(streams=1)
    outlook.worked_off(tokens=100, seconds=0.6)
    for _ in range(100):
        outlook.waited(Expected(1.0, 0.1, 2.0), "interactive", math.inf, answered=False)
    assert latest(outlook) == pytest.approx(1.1)


def test_who_finds_nothing_waiting_runs_at_once() -> None:
    assert WaitEstimate(1).latest(Expected(0.0, 5.0, PATIENCE), "interactive") == 0.0


def test_it_comes_to_what_one_in_a_hundred_waits_longer_than() -> None:
    waits = [1.1 + place / 200 for place in range(100)] * 60  # of 1.1 to 1.6
    assert latest(outlook_of(waits)) == pytest.approx(1.6, abs=0.06)


def test_those_who_were_not_served_in_time_count_as_the_longest() -> None:
    assert latest(outlook_of([math.inf] * 1000)) == pytest.approx(LONGEST + 0.1)


def test_one_that_was_given_up_before_it_was_late_teaches_nothing() -> None:
    outlook = outlook_of([math.inf] * 10)
    learnt = latest(outlook)
    outlook.waited(Expected(1.0, 0.1, PATIENCE), "interactive", 1.1, answered=False)
    assert latest(outlook) == learnt
    outlook.waited(Expected(1.0, 0.1, PATIENCE), "interactive", 1.1, answered=True)
    assert latest(outlook) < learnt


def test_it_is_unlearned_too() -> None:
    waits = [math.inf] * 20 + [1.0] * 3000
    assert latest(outlook_of(waits)) == pytest.approx(1.1)


def test_it_is_learned_for_each_priority_alone() -> None:
    outlook = outlook_of([math.inf] * 10)
    assert outlook.latest(Expected(1.0, 0.1, PATIENCE), "bulk") == pytest.approx(1.1)


@pytest.mark.parametrize("patience", [math.inf, 1 / WORTH + 0.1, 0.0, -1.0])
def test_whose_wait_is_a_small_part_of_his_patience_or_has_none_teaches_nothing(
    patience: float,
) -> None:
    assert latest(outlook_of([math.inf] * 10, patience=patience)) == pytest.approx(1.1)


@given(st.lists(st.floats(0, math.inf), max_size=400))
def test_the_longest_is_bounded_on_both_sides(waits: list[float]) -> None:
    assert 1.1 <= latest(outlook_of(waits)) <= LONGEST + 0.1 + 1e-9
