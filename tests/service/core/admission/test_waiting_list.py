"""Order in which requests that wait for room are admitted."""

from __future__ import annotations

import math
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.spec import Priority
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import Shed

PRIORITIES: tuple[Priority, ...] = get_args(Priority)
TOKENS, BULK, OUTPUTS = 80, 70, 8 << 20  # an eighth of the outputs, 1 MiB, is for small answers


class Waiter:
    """Request that waits for tokens and answer bytes."""

    def __init__(
        self,
        admission: Admission,
        priority: Priority,
        tokens: int,
        answer_bytes: int = 0,
        model: int = 0,
    ) -> None:
        self.budget = RequestBudget(admission, admission.estimates[model], priority)
        self.model = model
        self.priority, self.tokens, self.answer_bytes = priority, tokens, answer_bytes
        self.admitted = False
        self.begun = False

    def wait(self) -> bool:
        self.admitted = False
        answer = 0 if self.begun else self.answer_bytes
        if self.budget.await_room(self.tokens, answer, self.admit, begun=self.begun):
            self.admit()
        self.begun = True
        return self.admitted

    def admit(self) -> None:
        assert not self.admitted
        self.admitted = True

    def next_part(self) -> bool:
        self.budget.give_back_tokens()
        return self.wait()


def admission_of(models: int = 1, largest: int = BULK) -> Admission:
    admission = Admission(
        max_tokens=TOKENS,
        max_bulk_tokens=BULK,
        max_request_bytes=1000,
        max_output_bytes=OUTPUTS,
        estimates=[WaitEstimate(1) for _ in range(models)],
    )
    admission.resize(tokens=TOKENS, bulk_tokens=BULK, output_bytes=OUTPUTS, largest=largest)
    return admission


@pytest.fixture
def admission() -> Admission:
    return admission_of()


def shed(admission: Admission, priority: Priority, tokens: int, model: int = 0) -> str:
    """Return the message of a request that does not wait; empty: it was admitted."""
    budget = RequestBudget(admission, admission.estimates[model], priority)
    try:
        budget.take_tokens(tokens, math.inf)
    except Shed as error:
        return error.message
    budget.close()
    return ""


def test_a_waiting_bulk_request_does_not_block_interactive_ones(admission: Admission) -> None:
    assert Waiter(admission, "bulk", 70).wait()
    assert not Waiter(admission, "bulk", 10).wait()
    assert Waiter(admission, "interactive", 5).wait()
    assert not shed(admission, "interactive", 5)


def test_the_next_part_of_a_bulk_request_does_not_block_interactive_ones(
    admission: Admission,
) -> None:
    begun, other = Waiter(admission, "bulk", 40), Waiter(admission, "bulk", 30)
    assert begun.wait()
    assert other.wait()
    begun.tokens = 50  # its next part
    assert not begun.next_part()
    assert Waiter(admission, "interactive", 5).wait()


def test_interactive_requests_are_admitted_before_bulk_that_came_first(
    admission: Admission,
) -> None:
    first, bulk, urgent = (
        Waiter(admission, "interactive", 80),
        Waiter(admission, "bulk", 50),
        Waiter(admission, "interactive", 50),
    )
    assert [each.wait() for each in (first, bulk, urgent)] == [True, False, False]
    first.budget.close()
    assert (bulk.admitted, urgent.admitted) == (False, True)
    urgent.budget.close()
    assert bulk.admitted


@pytest.mark.parametrize("priority", PRIORITIES)
def test_a_request_that_does_not_wait_does_not_overtake(
    admission: Admission, priority: Priority
) -> None:
    first, large = Waiter(admission, priority, 40), Waiter(admission, priority, 60)
    assert first.wait()
    assert not large.wait()
    message = shed(admission, priority, 1)
    assert message.startswith("other requests wait for the queue (40 of 80 tokens, 1 asked for)")
    assert bool(shed(admission, "bulk", 1))
    large.budget.close()
    assert not shed(admission, priority, 1)


def test_answer_bytes_are_awaited_in_order_with_the_tokens(admission: Admission) -> None:
    first, large, small = (Waiter(admission, "bulk", 1, each << 20) for each in (7, 3, 2))
    assert [each.wait() for each in (first, large, small)] == [True, False, False]
    assert admission.tokens.held == 1, "nothing is taken before all fits"
    first.budget.give_back_tokens()
    assert [large.admitted, small.admitted] == [False, False]
    first.budget.close()
    assert [large.admitted, small.admitted] == [True, True]


def test_kept_bytes_of_a_sent_answer_admit_once_released(admission: Admission) -> None:
    first, other = (Waiter(admission, "bulk", 1, 7 << 20) for _ in range(2))
    assert first.wait()
    assert not other.wait()
    first.budget.close(None, 7 << 20)
    before = other.admitted
    first.budget.release(7 << 20)
    assert (before, other.admitted) == (False, True)


@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize("other", PRIORITIES)
def test_a_request_that_has_begun_does_not_wait_for_those_that_need_its_answer(
    admission: Admission, priority: Priority, other: Priority
) -> None:
    begun = Waiter(admission, priority, 20, 4 << 20)
    assert begun.wait()
    assert not Waiter(admission, other, 1, 5 << 20).wait()
    assert begun.next_part()


@pytest.mark.parametrize("priority", PRIORITIES)
def test_requests_within_their_models_part_overtake_those_of_a_flooded_one(
    priority: Priority,
) -> None:
    admission = admission_of(models=2, largest=20)  # 20 tokens are reserved for each, of bulk 17
    while Waiter(admission, priority, 9).wait():
        pass
    assert "other requests wait" in shed(admission, priority, 1)
    assert Waiter(admission, priority, 10, model=1).wait()
    assert not shed(admission, priority, 7, model=1)
    assert "other requests wait" in shed(admission, priority, 11, model=1), "its part has 7 or 10"
    assert not Waiter(admission, priority, 11, model=1).wait()
    assert "other requests wait" in shed(admission, priority, 1, model=1), "of its own model"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),  # model
            st.sampled_from(PRIORITIES),
            st.integers(1, BULK),
            st.integers(0, 7),
            st.integers(1, 3),  # parts
        ),
        max_size=12,
    ),
    st.integers(1, BULK),
    st.randoms(),
)
def test_every_request_that_waits_is_admitted_in_its_turn(
    wanted: list[tuple[int, Priority, int, int, int]], largest: int, random: Random
) -> None:
    """Whichever ends first, and if limits fall meanwhile, and nothing is left."""
    largest = max([largest, *(tokens for _, _, tokens, *_ in wanted)])
    admission = admission_of(models=3, largest=largest)
    order, waiting = list[Waiter](), list[Waiter]()
    parts = dict[Waiter, int]()
    for model, priority, tokens, mebibytes, count in wanted:
        each = Waiter(admission, priority, tokens, mebibytes << 20, model)
        parts[each] = count
        each.wait()
        waiting.append(each)
    while waiting:
        running = [each for each in waiting if each.admitted]
        order += [each for each in running if each not in order]
        assert running, "requests wait for each other"
        done = random.choice(running)
        parts[done] -= 1
        if parts[done]:
            done.next_part()
        else:
            done.budget.close()
            waiting.remove(done)
        if random.random() < 0.2:  # as if a model with larger answers had gone
            admission.resize(
                tokens=largest,
                bulk_tokens=largest,
                output_bytes=random.randint(1, OUTPUTS),
                largest=largest,
            )
        for model in range(3):
            for priority in PRIORITIES:
                same = [
                    each for each in waiting if (each.model, each.priority) == (model, priority)
                ]
                seen = [each in order or each.admitted for each in same]
                assert seen == sorted(seen, reverse=True), "one has overtaken another"
    assert (admission.tokens.held, admission.bulk.held, admission.outputs.held) == (0, 0, 0)
