from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded
from headlight.reasons import Phrase
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.admission_control import (
    LONGEST_RETRY_SECONDS,
    SHORTEST_RETRY_SECONDS,
    SMALL_ANSWER_BYTES,
    Admission,
    largest_output,
    outputs_for,
)
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import Shed, Shortage


def admission_of(tokens: int, **limits: Any) -> Admission:
    return Admission(
        **{"max_tokens": tokens, "max_request_bytes": 100, "max_output_bytes": 100, **limits},
        estimates=[WaitEstimate(1)],
    )


@contextlib.contextmanager
def admitted(
    admission: Admission,
    tokens: int,
    remaining_seconds: float = math.inf,
    priority: Priority = "interactive",
) -> Iterator[None]:
    """Reserve capacity around work on so many tokens, checked and taken as they are queued."""
    estimate = admission.estimates[0]
    with admission.lock:
        admission.check_wait(estimate, tokens, remaining_seconds, priority)
        admission.take_tokens(estimate, tokens, priority)
    try:
        yield
    finally:
        admission.give_tokens(estimate, tokens, priority)


@contextlib.contextmanager
def output(admission: Admission, size: int, field: str) -> Iterator[None]:
    """Reserve an answer of so many bytes."""
    admission.take_output(size, lambda room: (field, {"fits": ""}))
    try:
        yield
    finally:
        admission.outputs.take(-size)


def shed(
    admission: Admission, tokens: int, remaining_seconds: float = math.inf, **named: Any
) -> None:
    """Admit a request that is refused; return the error."""
    with admitted(admission, tokens, remaining_seconds, **named):
        pytest.fail("it was admitted")


def test_the_retry_delay_is_the_time_to_drain_half_the_queue() -> None:
    admission = admission_of(1000)
    admission.estimates[0].worked_off(tokens=200, seconds=1.0)
    with (
        admitted(admission, 1000),
        pytest.raises(Shed, match=r"1000 of 1000 tokens, 100 asked for") as refused,
    ):
        shed(admission, 100)
    assert refused.value.retry_after_seconds == pytest.approx(600 / 200)
    assert refused.value.shortage is Shortage.QUEUE_TOKENS


@given(st.integers(1, 10**9), st.floats(1e-9, 1e9))
def test_the_retry_delay_is_bounded(tokens: int, seconds: float) -> None:
    admission = admission_of(100)
    admission.estimates[0].worked_off(tokens, seconds)
    with admitted(admission, 100), pytest.raises(Shed) as refused:
        shed(admission, 50)
    assert refused.value.retry_after_seconds is not None
    assert SHORTEST_RETRY_SECONDS <= refused.value.retry_after_seconds <= LONGEST_RETRY_SECONDS


def test_a_wait_beyond_the_deadline_is_refused_at_once() -> None:
    admission = admission_of(1000)
    admission.estimates[0].worked_off(tokens=100, seconds=1.0)
    with admitted(admission, 200):
        assert admission.seconds_before("bulk") == pytest.approx(2.0)
        with pytest.raises(Shed, match=r"2\.01 s, and the deadline is in 0\.50 s") as refused:
            shed(admission, 1, 0.5)
        assert refused.value.shortage is Shortage.DEADLINE
        assert refused.value.retry_after_seconds == pytest.approx(1.51)
        with pytest.raises(Shed, match=r"2\.60 s"):  # its own work is part of its wait
            shed(admission, 60, 2.5)
        with pytest.raises(Shed, match=r"2\.00 s"):
            admission.check_wait(admission.estimates[0], 0, 1.99, "interactive")
        admission.check_wait(admission.estimates[0], 0, 2.01, "interactive")
        with admitted(admission, 1, 2.5), admitted(admission, 1, math.inf):
            assert admission.tokens.held == 202


def test_an_empty_queue_accepts_every_deadline() -> None:
    """Otherwise one slow batch could cause every request to be refused,
    and no measurement would ever correct it.
    """
    admission = admission_of(1000)
    admission.estimates[0].worked_off(tokens=1, seconds=1e6)
    with admitted(admission, 1000, 1e-3):
        assert admission.tokens.held == 1000


@pytest.mark.parametrize("remaining", [0.0, -1.0])
def test_a_passed_deadline_is_deadline_exceeded_and_not_overload(remaining: float) -> None:
    """A retry delay would be wrong advice, however full the queue is."""
    admission = admission_of(10)
    with pytest.raises(DeadlineExceeded):
        shed(admission, 1, remaining)
    with admitted(admission, 10), pytest.raises(DeadlineExceeded):
        shed(admission, 1, remaining)
    assert admission.tokens.held == 0


def test_a_request_that_starts_at_once_is_not_refused_by_its_estimate() -> None:
    asked: list[Priority] = []

    def begins_at_once(priority: Priority) -> bool:
        asked.append(priority)
        return priority == "interactive"

    admission = admission_of(1000, begins_at_once=begins_at_once)
    admission.estimates[0].worked_off(tokens=1, seconds=1e6)
    admission.take_tokens(admission.estimates[0], 10, "interactive")
    admission.check_wait(admission.estimates[0], 10, 1e-3, "interactive")
    with pytest.raises(Shed):
        admission.check_wait(admission.estimates[0], 10, 1e-3, "bulk")
    with pytest.raises(DeadlineExceeded):
        admission.check_wait(admission.estimates[0], 10, 0.0, "interactive")
    assert asked == ["interactive", "bulk"]


def test_large_answers_leave_capacity_for_small_ones() -> None:
    """Requests for vectors are served however many large answers wait for their readers."""
    limit = 64 * SMALL_ANSWER_BYTES
    admission = admission_of(1, max_output_bytes=limit)
    assert admission.room == largest_output(limit) == 56 * SMALL_ANSWER_BYTES
    with output(admission, 56 * SMALL_ANSWER_BYTES, "outputs.attention"):
        assert admission.room == SMALL_ANSWER_BYTES
        with pytest.raises(Shed):
            admission.take_output(
                SMALL_ANSWER_BYTES + 1, lambda room: ("outputs.attention", {"fits": ""})
            )
        for _ in range(8):
            admission.take_output(SMALL_ANSWER_BYTES, lambda room: ("outputs.pooled", {"fits": ""}))
        with pytest.raises(Shed):
            admission.take_output(1, lambda room: ("outputs.pooled", {"fits": ""}))


@given(st.integers(1, 1 << 34))
def test_the_largest_answer_fits_if_there_are_no_others(limit: int) -> None:
    admission = admission_of(1, max_output_bytes=limit)
    with output(admission, largest_output(limit), "outputs.attention"):
        assert 0 <= admission.outputs.free <= limit / 8


@given(st.integers(1, 1 << 34))
def test_an_answer_fits_its_output_reservation(size: int) -> None:
    assert largest_output(outputs_for(size)) >= size


def test_request_and_result_bytes_are_counted_separately() -> None:
    admission = admission_of(1)
    admission.take_request(100)
    with output(admission, 100, "outputs.attention"):
        with pytest.raises(
            Shed, match=r"requests of 100 bytes are held, over 100 with these 1"
        ) as refused:
            admission.take_request(1)
        assert refused.value.shortage is Shortage.REQUEST_BYTES
        with pytest.raises(
            Shed, match=r"^outputs\.attention: the answer would have 7 bytes; 100 of 100"
        ) as refused:
            admission.take_output(
                7,
                lambda room: (
                    "outputs.attention",
                    {"fits": Phrase.LAYERS_FIT, "fitting": 1, "among": 4},
                ),
            )
        assert "1 of these 4 layers would fit; wait, or ask" in refused.value.message
        assert refused.value.shortage is Shortage.OUTPUT_BYTES
        assert (admission.requests.held, admission.outputs.held) == (100, 100)
    admission.requests.take(-100)
    assert (admission.requests.held, admission.outputs.held) == (0, 0)


def test_bulk_leaves_capacity_for_interactive() -> None:
    admission = admission_of(1000, max_bulk_tokens=800)
    bulk = RequestBudget(admission, admission.estimates[0], "bulk")
    bulk.take_tokens(800, math.inf)
    assert (admission.bulk.held, admission.tokens.held) == (800, 800)
    with pytest.raises(Shed, match=r"full for bulk \(800 of 800 tokens, 1 asked for\)") as refused:
        shed(admission, 1, priority="bulk")
    assert refused.value.shortage is Shortage.QUEUE_TOKENS
    with (
        admitted(admission, 200),
        pytest.raises(Shed, match=r"full \(1000 of 1000 tokens, 1 asked for\)"),
    ):
        shed(admission, 1)
    bulk.began(500)
    assert (admission.bulk.held, admission.tokens.held) == (800, 800)
    bulk.close()
    assert (admission.bulk.held, admission.tokens.held) == (500, 500)
    bulk.ended(500)
    assert (admission.bulk.held, admission.tokens.held) == (0, 0)


def test_bulk_is_refused_if_interactive_fills_the_queue() -> None:
    admission = admission_of(1000, max_bulk_tokens=800)
    with (
        admitted(admission, 900),
        pytest.raises(Shed, match=r"full \(900 of 1000 tokens, 200 asked for\)"),
    ):
        shed(admission, 200, priority="bulk")


def test_the_interactive_wait_estimate_excludes_bulk() -> None:
    admission = admission_of(1000)
    admission.estimates[0].worked_off(100, 1.0)
    with admitted(admission, 500, priority="bulk"):
        with admitted(admission, 50, 0.1):
            assert admission.tokens.held == 550
        with pytest.raises(Shed, match=r"5\.50 s"):
            shed(admission, 50, 0.1, priority="bulk")


def test_a_wait_counts_of_other_models_what_their_fair_shares_allow() -> None:
    slow, quick = WaitEstimate(1), WaitEstimate(1)
    admission = Admission(
        max_tokens=1000, max_request_bytes=0, max_output_bytes=0, estimates=[slow, quick]
    )
    slow.worked_off(tokens=10, seconds=1.0)
    quick.worked_off(tokens=1000, seconds=1.0)
    admission.take_tokens(slow, 50, "interactive")
    admission.take_tokens(quick, 100, "interactive")
    # 0.1 of the model before it; of the other 0.2, as long as both take, and a batch; its own 0.1.
    with pytest.raises(Shed, match=r"1\.40 s"):
        admission.check_wait(quick, 100, 1.0, "interactive")
    quick.weight = 2.0
    with pytest.raises(Shed, match=r"1\.30 s"):
        admission.check_wait(quick, 100, 1.0, "interactive")
    with pytest.raises(Shed, match=r"5\.20 s"):  # all that is interactive goes before bulk
        admission.check_wait(quick, 100, 1.0, "bulk")
    with pytest.raises(Shed, match=r"15\.10 s"):  # all of the other, which is less than its share
        admission.check_wait(slow, 100, 1.0, "interactive")
    with pytest.raises(Shed) as refused:
        admission.take_tokens(quick, 900, "interactive")
    assert refused.value.retry_after_seconds == SHORTEST_RETRY_SECONDS, "the queue is not half full"
    admission.give_tokens(slow, 50, "interactive")
    admission.check_wait(quick, 100, 1.0, "interactive")


def test_a_full_part_of_a_model_is_named() -> None:
    flooded, other = WaitEstimate(1), WaitEstimate(1, weight=3.0)
    admission = Admission(
        max_tokens=0, max_request_bytes=0, max_output_bytes=0, estimates=[flooded, other]
    )
    admission.resize(tokens=80, bulk_tokens=80, output_bytes=0, largest=10)
    admission.take_tokens(flooded, 50, "interactive")
    with pytest.raises(Shed, match=r"the model's part of the queue is full \(50 of 50 tokens, 1 "):
        admission.take_tokens(flooded, 1, "interactive")
    admission.take_tokens(other, 30, "interactive")
    with pytest.raises(Shed, match=r"^the queue is full \(80 of 80 tokens, 1 "):
        admission.take_tokens(other, 1, "interactive")


@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=5),
    queue=st.integers(8, 1000),
    largest=st.integers(1, 1000),
    asked=st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from(["interactive", "bulk"]), st.floats(0.001, 1.0)
        ),
        max_size=30,
    ),
)
def test_a_flood_leaves_each_model_its_reserved_tokens(
    weights: list[float], queue: int, largest: int, asked: list[tuple[int, Priority, float]]
) -> None:
    models = [WaitEstimate(1, weight) for weight in weights]
    admission = Admission(max_tokens=0, max_request_bytes=0, max_output_bytes=0, estimates=models)
    tokens, bulk = max(queue, largest), max(queue - queue // 8, largest)
    admission.resize(tokens=tokens, bulk_tokens=bulk, output_bytes=0, largest=largest)
    for model in models:
        for priority in PRIORITIES:
            admission.take_tokens(model, largest, priority)  # it fits if nothing else is held
            admission.give_tokens(model, largest, priority)
    for number, priority, part in asked:
        with contextlib.suppress(Shed):
            admission.take_tokens(models[number % len(models)], math.ceil(part * largest), priority)
    assert admission.tokens.held <= tokens
    assert admission.bulk.held <= bulk
    for model in models:
        admission.take_tokens(model, model.unused("interactive"), "interactive")
