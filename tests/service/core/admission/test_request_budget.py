"""Budget of one request: reserved step by step, released once, however it ends."""

from __future__ import annotations

import math
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded, EngineError
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Expected, WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import Shed, Shortage
from tests.service.batching import at_once

FAILURE = EngineError("the model failed")


def admission_of(**limits: Any) -> Admission:
    return Admission(
        **{"max_tokens": 1000, "max_request_bytes": 1000, "max_output_bytes": 1000, **limits},
        estimates=[WaitEstimate(1)],
    )


@pytest.fixture
def admission() -> Admission:
    return admission_of()


def held(admission: Admission) -> tuple[int, int, int, int]:
    """Return bytes of requests, tokens, bulk's tokens, bytes of answers."""
    pools = (admission.requests, admission.tokens, admission.bulk, admission.outputs)
    requests, tokens, bulk, outputs = (pool.held for pool in pools)
    return requests, tokens, bulk, outputs


def queued(
    admission: Admission, priority: Priority = "interactive", deadline: float = math.inf
) -> RequestBudget:
    """Return the budget of a queued request: 3 bytes, 50 tokens, 20 bytes of its answer."""
    budget = RequestBudget(admission, admission.estimates[0], priority)
    budget.take_request(3)
    budget.take_answer(20)
    budget.take_tokens(50, deadline)
    return budget


@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize(
    "error", [None, FAILURE, DeadlineExceeded("late")], ids=["answered", "failed", "late"]
)
def test_everything_is_released_once(
    admission: Admission, priority: Priority, error: Exception | None
) -> None:
    budget = queued(admission, priority)
    assert held(admission) == (3, 50, 50 if priority == "bulk" else 0, 20)
    assert budget.answer_bytes == 20
    assert budget.close(error) == 0
    assert held(admission) == (0, 0, 0, 0)
    assert budget.close(error) == 0
    assert held(admission) == (0, 0, 0, 0)


def test_tokens_being_computed_are_held_until_the_batch_ends(admission: Admission) -> None:
    budget = queued(admission, "bulk")
    budget.began(30)
    budget.began(15)
    budget.close()
    assert held(admission) == (0, 45, 45, 20)
    budget.ended(15)
    assert held(admission) == (0, 45, 45, 20)
    budget.ended(30)
    assert held(admission) == (0, 0, 0, 0)


def test_the_end_of_a_batch_releases_nothing_of_an_open_budget(admission: Admission) -> None:
    budget = queued(admission)
    budget.began(50)
    budget.ended(50)
    assert held(admission) == (3, 50, 0, 20)
    budget.close()


def test_a_computed_wave_releases_its_tokens_and_keeps_the_answer_bytes(
    admission: Admission,
) -> None:
    budget = queued(admission)
    assert budget.give_back_tokens() == 50
    assert held(admission) == (3, 0, 0, 20)
    budget.take_tokens(40, math.inf)
    assert held(admission) == (3, 40, 0, 20)
    assert budget.give_back_tokens() == 40
    budget.close()
    assert held(admission) == (0, 0, 0, 0)


def test_unsent_answer_bytes_are_held_until_released(admission: Admission) -> None:
    budget = queued(admission)
    budget.give_back_tokens()
    assert budget.close(keep_answer_bytes=15) == 15
    assert held(admission) == (0, 0, 0, 15)
    budget.release(15)
    assert held(admission) == (0, 0, 0, 0)
    budget = queued(admission)
    budget.give_back_tokens()
    assert budget.close(keep_answer_bytes=99) == 20, "no more than it held"
    budget.release(20)
    assert held(admission) == (0, 0, 0, 0)


def test_parts_of_an_answer_are_reserved_together(admission: Admission) -> None:
    budget = RequestBudget(admission, admission.estimates[0], "interactive")
    budget.take_answer(20)
    budget.take_answer(30)
    assert (budget.answer_bytes, admission.outputs.held) == (50, 50)
    budget.close()
    assert admission.outputs.held == 0


def test_a_cancelled_request_reserves_nothing_more(admission: Admission) -> None:
    budget = RequestBudget(admission, admission.estimates[0], "interactive")
    budget.close()
    with pytest.raises(CancelledError):
        budget.take_request(3)
    with pytest.raises(CancelledError):
        budget.take_answer(3)
    with pytest.raises(CancelledError):
        budget.take_tokens(3, math.inf)
    assert held(admission) == (0, 0, 0, 0)


def test_a_refused_reservation_changes_nothing(admission: Admission) -> None:
    budget = RequestBudget(admission, admission.estimates[0], "interactive")
    with pytest.raises(Shed) as refused:
        budget.take_request(1001)
    assert refused.value.shortage is Shortage.REQUEST_BYTES
    budget.take_request(3)
    with pytest.raises(Shed) as refused:
        budget.take_answer(1001)
    assert refused.value.shortage is Shortage.OUTPUT_BYTES
    budget.take_answer(5)
    with pytest.raises(Shed) as refused:
        budget.take_tokens(1001, math.inf)
    assert refused.value.shortage is Shortage.QUEUE_TOKENS
    assert held(admission) == (3, 0, 0, 5)
    budget.close(refused.value)
    assert held(admission) == (0, 0, 0, 0)


def test_the_deadline_is_checked_when_a_request_is_queued(admission: Admission) -> None:
    """Before reading, its tokens were an estimate, and other requests have arrived since."""
    admission.estimates[0].worked_off(tokens=10, seconds=60.0)
    queued(admission)
    budget = RequestBudget(admission, admission.estimates[0], "interactive")
    with pytest.raises(Shed) as refused:
        budget.take_tokens(10, time.monotonic() + 100)
    assert refused.value.shortage is Shortage.DEADLINE
    with pytest.raises(DeadlineExceeded):
        budget.take_tokens(10, time.monotonic())
    budget.take_tokens(10, time.monotonic() + 1e6)
    assert admission.tokens.held == 60


def test_the_deadline_is_checked_before_a_request_is_read(admission: Admission) -> None:
    admission.estimates[0].worked_off(tokens=10, seconds=60.0)
    queued(admission)
    budget = RequestBudget(admission, admission.estimates[0], "interactive")
    with pytest.raises(Shed) as refused:
        budget.refuse_early(10.5, 100.0)
    assert refused.value.shortage is Shortage.DEADLINE
    with pytest.raises(DeadlineExceeded):
        budget.refuse_early(0, 0.0)
    budget.refuse_early(10.5, 1e6)
    budget.refuse_early(10**9, -1.0, computes=False)  # it is never queued


class Learnt:
    """Recorder of the waits that an estimate receives."""

    def __init__(self, admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: list[tuple[Expected, Priority, float, float]] = []
        monkeypatch.setattr(
            admission.estimates[0],
            "waited",
            lambda *wait, answered: self.waits.append((*wait, answered)),
        )


def test_the_wait_is_recorded_when_a_request_is_computed(
    admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission.estimates[0].worked_off(tokens=10, seconds=1.0)
    others, learnt = queued(admission), Learnt(admission, monkeypatch)
    budget = queued(admission, "bulk", time.monotonic() + 100)
    budget.give_back_tokens()
    [(expected, priority, seconds, answered)] = learnt.waits
    assert (expected, priority, answered) == (Expected(5.0, 5.0, expected.remaining), "bulk", True)
    assert 99 < expected.remaining <= 100
    assert 0 <= seconds < 30
    budget.close()
    assert len(learnt.waits) == 1, "nothing waits any more"
    others.close()


def test_a_cancelled_wait_is_recorded_if_longer_than_expected(admission: Admission) -> None:
    admission.estimates[0].worked_off(tokens=10, seconds=60.0)
    others, expected = queued(admission), Expected(1.0, 0.0, 1.0)
    before = admission.estimates[0].latest(expected, "interactive")
    queued(admission, deadline=time.monotonic() + 1e3).close()
    assert admission.estimates[0].latest(expected, "interactive") == before, (
        "it did not wait as long as it was told"
    )
    late = queued(admission, deadline=time.monotonic() + 1e3)
    late._queued_at -= 1e3
    late.close()
    assert admission.estimates[0].latest(expected, "interactive") > before
    others.close()


def test_results_of_cancelled_requests_do_not_record_a_wait(
    admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission.estimates[0].worked_off(tokens=10, seconds=60.0)
    others, learnt = queued(admission), Learnt(admission, monkeypatch)
    budget = queued(admission)
    budget.began(50)
    budget.close()
    assert budget.give_back_tokens() == 50
    assert learnt.waits == []
    assert admission.tokens.held == 100
    budget.ended(50)
    others.close()
    assert held(admission) == (0, 0, 0, 0)


STEPS = st.sampled_from(
    ["receive", "reserve", "queue", "began", "ended", "computed", "close", "keep"]
)


@given(
    st.lists(st.tuples(st.integers(0, 3), STEPS, st.integers(1, 400)), max_size=60),
    st.sampled_from(PRIORITIES),
)
def test_everything_is_released_after_any_order_of_events(
    steps: list[tuple[int, str, int]], priority: Priority
) -> None:
    admission = admission_of(max_bulk_tokens=800)
    budgets = [RequestBudget(admission, admission.estimates[0], priority) for _ in range(4)]
    queued_tokens, computing, kept = [0] * 4, [0] * 4, [0] * 4
    for which, step, amount in steps:
        budget = budgets[which]
        try:
            if step == "receive" and not budget._request_bytes:
                budget.take_request(amount)
            elif step == "reserve":
                budget.take_answer(amount)
            elif step == "queue" and not (queued_tokens[which] or computing[which]):
                budget.take_tokens(amount, math.inf)
                queued_tokens[which] = amount
            elif step == "began" and queued_tokens[which] and not budget._closed:
                computing[which] = queued_tokens[which]
                budget.began(computing[which])
                queued_tokens[which] = 0
            elif step == "ended" and computing[which]:
                budget.ended(computing[which])
                computing[which] = 0
                budget.give_back_tokens()
            elif step in ("close", "keep"):
                kept[which] += budget.close(FAILURE, amount if step == "keep" else 0)
        except (Shed, CancelledError):
            pass
        for pool in (admission.requests, admission.tokens, admission.bulk, admission.outputs):
            assert 0 <= pool.held <= pool.limit
    for which, budget in enumerate(budgets):
        budget.close()
        if computing[which]:
            budget.ended(computing[which])
        budget.release(kept[which])
    assert held(admission) == (0, 0, 0, 0)


def test_concurrent_threads_reserve_and_release_exactly() -> None:
    admission = admission_of(max_tokens=10**6, max_request_bytes=10**6, max_output_bytes=10**9)

    def live(number: int) -> None:
        for _ in range(500):
            budget = queued(admission, PRIORITIES[number % 2])
            with admission.lock:
                budget.began(50)
            budget.close()
            with admission.lock:
                budget.ended(50)

    at_once(live)
    assert held(admission) == (0, 0, 0, 0)
