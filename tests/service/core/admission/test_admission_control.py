from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded
from headlight_service.core.admission.admission_control import (
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    SHORTEST_RETRY_SECONDS,
    Admission,
    Shed,
    Shortage,
    largest_output,
)
from headlight_service.frontends.grpc.answer_frames import CHUNK_BYTES


def admission_of(tokens: int, **limits: Any) -> Admission:
    return Admission(**{"max_tokens": tokens, "max_request_bytes": 100, "max_output_bytes": 100, **limits})


def test_permits_come_back_however_their_holder_ends() -> None:
    admission = admission_of(10)
    with admission.admit(4), admission.admit(6):
        assert admission.tokens.held == 10
        with pytest.raises(Shed):
            admission.admit(1)
    assert admission.tokens.held == 0
    with pytest.raises(ZeroDivisionError), admission.admit(10):
        raise ZeroDivisionError
    assert admission.tokens.held == 0


def test_the_delay_is_the_time_in_which_half_the_queue_is_worked_off() -> None:
    admission = admission_of(1000, streams=2)
    admission.outlook.worked_off(tokens=100, seconds=1.0)  # with two streams, 200 tokens a second
    with admission.admit(1000), pytest.raises(Shed, match=r"1000 of 1000 tokens, 100 asked for") as refused:
        admission.admit(100)
    assert refused.value.retry_after_seconds == pytest.approx(600 / 200)
    assert refused.value.shortage is Shortage.QUEUE_TOKENS


def test_before_the_first_batch_there_is_a_guess() -> None:
    admission = admission_of(1)
    with admission.admit(1), pytest.raises(Shed) as refused:
        admission.admit(1)
    assert refused.value.retry_after_seconds == FIRST_RETRY_SECONDS


@given(st.integers(1, 10**9), st.floats(1e-9, 1e9))
def test_the_delay_is_bounded(tokens: int, seconds: float) -> None:
    admission = admission_of(100)
    admission.outlook.worked_off(tokens, seconds)
    with admission.admit(100), pytest.raises(Shed) as refused:
        admission.admit(50)
    assert refused.value.retry_after_seconds is not None
    assert SHORTEST_RETRY_SECONDS <= refused.value.retry_after_seconds <= LONGEST_RETRY_SECONDS


def test_a_wait_beyond_the_deadline_is_refused_at_once() -> None:
    admission = admission_of(1000)
    admission.outlook.worked_off(tokens=100, seconds=1.0)
    with admission.admit(200):
        assert admission.backlog_seconds == pytest.approx(2.0)
        with pytest.raises(Shed, match=r"2\.01 s, and the deadline is in 0\.50 s") as refused:
            admission.admit(1, patience_seconds=0.5)
        assert refused.value.shortage is Shortage.DEADLINE
        assert refused.value.retry_after_seconds == pytest.approx(1.51)
        with pytest.raises(Shed, match=r"2\.60 s"):  # its own work is a part of its wait
            admission.admit(60, patience_seconds=2.5)
        with pytest.raises(Shed, match=r"2\.00 s"):
            admission.look_ahead(patience_seconds=1.99)
        admission.look_ahead(patience_seconds=2.01)
        with admission.admit(1, patience_seconds=2.5), admission.admit(1, patience_seconds=math.inf):
            assert admission.tokens.held == 202


def test_an_empty_queue_refuses_no_deadline_however_slow_the_past() -> None:
    """Else one slow batch could have everything refused, and nothing would ever show that it was an exception."""
    admission = admission_of(1000)
    admission.outlook.worked_off(tokens=1, seconds=1e6)
    with admission.admit(1000, patience_seconds=1e-3):
        pass


@pytest.mark.parametrize("patience", [0.0, -1.0])
def test_a_deadline_that_has_passed_is_no_shortage(patience: float) -> None:
    """To be told to come back would be wrong advice; and that holds however full the queue is."""
    admission = admission_of(10)
    with pytest.raises(DeadlineExceeded):
        admission.admit(1, patience_seconds=patience)
    with admission.admit(10), pytest.raises(DeadlineExceeded):
        admission.admit(1, patience_seconds=patience)
    assert admission.tokens.held == 0


def test_part_of_a_permit_can_be_held_longer() -> None:
    admission = admission_of(10)
    with admission.admit(7) as permit:
        part = permit.split(3)
        assert admission.tokens.held == 7
    assert admission.tokens.held == 3
    part.give_back()
    part.give_back()  # a second time: nothing
    assert admission.tokens.held == 0


def test_large_answers_leave_room_for_small_ones() -> None:
    """Whoever asks for a vector is served however many large answers wait for their readers."""
    limit = 64 * CHUNK_BYTES
    admission = admission_of(1, max_output_bytes=limit)
    assert admission.room == largest_output(limit) == 56 * CHUNK_BYTES
    with admission.hold_output(56 * CHUNK_BYTES, "outputs.attention", ""):
        assert admission.room == CHUNK_BYTES
        with pytest.raises(Shed):
            admission.hold_output(CHUNK_BYTES + 1, "outputs.attention", "")
        for _ in range(8):
            admission.hold_output(CHUNK_BYTES, "outputs.pooled", "")
        with pytest.raises(Shed):
            admission.hold_output(1, "outputs.pooled", "")


@given(st.integers(1, 1 << 34))
def test_the_largest_answer_fits_where_there_are_no_others(limit: int) -> None:
    admission = admission_of(1, max_output_bytes=limit)
    with admission.hold_output(largest_output(limit), "outputs.attention", ""):
        assert 0 <= admission.outputs.free <= limit / 8


def test_bytes_of_requests_and_of_results_are_counted_apart() -> None:
    admission = admission_of(1)
    with admission.receive(100), admission.hold_output(100, "outputs.attention", ""):
        with pytest.raises(Shed) as refused:
            admission.receive(1)
        assert refused.value.shortage is Shortage.REQUEST_BYTES
        with pytest.raises(Shed, match=r"^outputs\.attention: the answer would have 7 bytes; 100 of 100") as refused:
            admission.hold_output(7, "outputs.attention", "; 1 of these 4 layers would fit")
        assert "1 of these 4 layers would fit; wait, or ask" in refused.value.message
        assert refused.value.shortage is Shortage.OUTPUT_BYTES
    assert (admission.requests.held, admission.outputs.held) == (0, 0)


def test_bulk_leaves_room_for_what_is_interactive() -> None:
    admission = admission_of(1000, max_bulk_tokens=800)
    with admission.admit(800, priority="bulk") as bulk:
        assert (admission.bulk.held, admission.tokens.held) == (800, 800)
        with pytest.raises(Shed, match=r"full for bulk \(800 of 800 tokens, 1 asked for\)") as refused:
            admission.admit(1, priority="bulk")
        assert refused.value.shortage is Shortage.QUEUE_TOKENS
        with admission.admit(200), pytest.raises(Shed, match=r"full \(1000 of 1000 tokens, 1 asked for\)"):
            admission.admit(1)
        with bulk.split(300):
            assert (admission.bulk.held, admission.tokens.held) == (800, 800)
        assert (admission.bulk.held, admission.tokens.held) == (500, 500)
    assert (admission.bulk.held, admission.tokens.held) == (0, 0)


def test_bulk_is_refused_where_interactive_fills_the_queue() -> None:
    admission = admission_of(1000, max_bulk_tokens=800)
    with admission.admit(900), pytest.raises(Shed, match=r"full \(900 of 1000 tokens, 200 asked for\)"):
        admission.admit(200, priority="bulk")


def test_what_is_interactive_does_not_expect_to_wait_for_bulk() -> None:
    admission = admission_of(1000)
    admission.outlook.worked_off(100, 1.0)
    with admission.admit(500, priority="bulk"):
        with admission.admit(50, patience_seconds=0.1):
            pass
        with pytest.raises(Shed, match=r"5\.50 s"):
            admission.admit(50, patience_seconds=0.1, priority="bulk")
