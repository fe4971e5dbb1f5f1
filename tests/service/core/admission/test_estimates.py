from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_service.core.admission.estimates import LONGEST, WORTH, Expected, WaitEstimate

REMAINING = 2.0


def estimate_of(
    waits: list[float], before: float = 1.0, remaining: float = REMAINING
) -> WaitEstimate:
    """Return an estimate after these waits, with an expected wait of `before` plus 0.1 s."""
    estimate = WaitEstimate(streams=1)
    for seconds in waits:
        estimate.waited(
            Expected(before, 0.1, remaining), "interactive", seconds, answered=seconds < math.inf
        )
    return estimate


def latest(estimate: WaitEstimate) -> float:
    return estimate.latest(Expected(1.0, 0.1, REMAINING), "interactive")


def test_the_drain_rate_is_that_of_all_slots() -> None:
    estimate = WaitEstimate(streams=2)
    assert estimate.seconds(100) == 0.0, "none is known yet"
    estimate.worked_off(tokens=100, seconds=1.0)
    assert estimate.seconds(100) == pytest.approx(0.5)


def test_the_initial_estimate_is_the_expected_wait() -> None:
    assert latest(estimate_of([])) == pytest.approx(1.1)


def test_an_exclusive_batch_counts_the_threads_of_all_slots() -> None:
    estimate = WaitEstimate(streams=4)
    estimate.worked_off(tokens=100, seconds=1.0, wide=True)
    assert estimate.seconds(100) == pytest.approx(1.0)


def test_a_miss_due_to_the_running_batch_does_not_change_the_estimate() -> None:
    estimate = WaitEstimate(streams=1)
    estimate.worked_off(tokens=100, seconds=0.6)
    for _ in range(100):
        estimate.waited(Expected(1.0, 0.1, 2.0), "interactive", math.inf, answered=False)
    assert latest(estimate) == pytest.approx(1.1)


def test_an_empty_queue_has_no_wait() -> None:
    assert WaitEstimate(1).latest(Expected(0.0, 5.0, REMAINING), "interactive") == 0.0


def test_the_estimate_converges_to_the_99th_percentile() -> None:
    waits = [1.1 + place / 200 for place in range(100)] * 60  # of 1.1 to 1.6
    assert latest(estimate_of(waits)) == pytest.approx(1.6, abs=0.06)


def test_requests_not_served_in_time_count_as_the_longest_wait() -> None:
    assert latest(estimate_of([math.inf] * 1000)) == pytest.approx(LONGEST + 0.1)


def test_a_request_cancelled_before_it_was_late_does_not_change_the_estimate() -> None:
    estimate = estimate_of([math.inf] * 10)
    learnt = latest(estimate)
    estimate.waited(Expected(1.0, 0.1, REMAINING), "interactive", 1.1, answered=False)
    assert latest(estimate) == learnt
    estimate.waited(Expected(1.0, 0.1, REMAINING), "interactive", 1.1, answered=True)
    assert latest(estimate) < learnt


def test_learned_excess_falls_again_after_answers_in_time() -> None:
    waits = [math.inf] * 20 + [1.0] * 3000
    assert latest(estimate_of(waits)) == pytest.approx(1.1)


def test_the_estimate_is_learned_per_priority() -> None:
    estimate = estimate_of([math.inf] * 10)
    assert estimate.latest(Expected(1.0, 0.1, REMAINING), "bulk") == pytest.approx(1.1)


@pytest.mark.parametrize("remaining", [math.inf, 1 / WORTH + 0.1, 0.0, -1.0])
def test_requests_with_distant_or_no_deadlines_do_not_change_the_estimate(
    remaining: float,
) -> None:
    assert latest(estimate_of([math.inf] * 10, remaining=remaining)) == pytest.approx(1.1)


@given(st.lists(st.floats(0, math.inf), max_size=400))
def test_the_estimate_is_bounded_on_both_sides(waits: list[float]) -> None:
    assert 1.1 <= latest(estimate_of(waits)) <= LONGEST + 0.1 + 1e-9
