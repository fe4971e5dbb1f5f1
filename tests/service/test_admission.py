from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import Overloaded
from service.admission import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, SHORTEST_RETRY_SECONDS, Admission


def test_permits_come_back_however_their_holder_ends() -> None:
    admission = Admission(10)
    with admission.admit(4), admission.admit(6):
        assert admission.held_tokens == 10
        with pytest.raises(Overloaded):
            admission.admit(1)
    assert admission.held_tokens == 0
    with pytest.raises(ZeroDivisionError), admission.admit(10):
        raise ZeroDivisionError
    assert admission.held_tokens == 0


def test_the_delay_is_the_time_in_which_half_the_queue_is_worked_off() -> None:
    admission = Admission(1000, streams=2)
    admission.worked_off(tokens=100, seconds=1.0)  # with two streams, 200 tokens a second
    with admission.admit(1000), pytest.raises(Overloaded, match=r"1000 of 1000 tokens.*3\.00 s") as refused:
        admission.admit(100)
    assert refused.value.retry_after_seconds == pytest.approx(600 / 200)


def test_before_the_first_batch_there_is_a_guess() -> None:
    admission = Admission(1)
    with admission.admit(1), pytest.raises(Overloaded) as refused:
        admission.admit(1)
    assert refused.value.retry_after_seconds == FIRST_RETRY_SECONDS


@given(st.integers(1, 10**9), st.floats(1e-9, 1e9))
def test_the_delay_is_bounded(tokens: int, seconds: float) -> None:
    admission = Admission(100)
    admission.worked_off(tokens, seconds)
    with admission.admit(100), pytest.raises(Overloaded) as refused:
        admission.admit(50)
    assert refused.value.retry_after_seconds is not None
    assert SHORTEST_RETRY_SECONDS <= refused.value.retry_after_seconds <= LONGEST_RETRY_SECONDS
