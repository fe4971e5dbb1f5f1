"""Buckets of tokens: what a client can have computed, and what is given back."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded, EngineError, InvalidInput
from headlight_service.core.admission import rate_limit as module
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.rate_limit import READ_CHARACTERS, READING, Bucket, Quotas
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shedding import Shed, Shortage
from tests.service.batching import Clock

FAILURE = EngineError("the model failed")


def refusal(bucket: Bucket, tokens: float) -> Shed:
    with pytest.raises(Shed) as error:
        bucket.charge(tokens)
    return error.value


def request_of(bucket: Bucket | None) -> RequestBudget:
    """What a request of a client holds."""
    admission = Admission(max_tokens=100, max_request_bytes=1, max_output_bytes=1)
    return RequestBudget(admission, "interactive", bucket)


def charged(bucket: Bucket | None, tokens: int, read: int = 0) -> RequestBudget:
    """What a request holds that was charged for so many tokens, of which so many were read."""
    request = request_of(bucket)
    request.has_read(read)
    request.charge(tokens)
    return request


def test_a_request_that_finds_too_little_is_told_when_it_will_be_enough() -> None:
    clock = Clock()
    bucket = Bucket(100, 1000, clock)
    bucket.charge(900)
    error = refusal(bucket, 300)
    assert (error.shortage, error.retry_after_seconds) == (Shortage.QUOTA, 2.0)
    assert "quota of 100 tokens a second" in error.message
    clock.now += 2.0
    bucket.charge(300)
    assert bucket.level == pytest.approx(0)


def test_what_fails_is_paid_back_and_what_nobody_waits_for_is_not() -> None:
    bucket = Bucket(1, 100, Clock())
    charged(bucket, 60).close(FAILURE)
    charged(bucket, 60).close(Shed("the queue is full", Shortage.QUEUE_TOKENS, 1.0))
    assert bucket.level == 100
    charged(bucket, 60).close(asyncio.CancelledError())
    assert bucket.level == 40
    charged(bucket, 30).close()
    assert bucket.level == 10


def test_computed_work_of_a_failed_request_is_paid_and_all_that_a_deadline_cut_short() -> None:
    bucket = Bucket(1, 100, Clock())
    request = charged(bucket, 80)
    request.take_tokens(30, math.inf)
    request.computed()
    request.close(FAILURE)
    assert bucket.level == 70
    charged(bucket, 50).close(DeadlineExceeded("the caller's own"))
    assert bucket.level == 20


def test_what_was_read_is_a_part_of_the_price_and_never_put_back() -> None:
    bucket = Bucket(1, 100, Clock())
    charged(bucket, 80, read=5 * READING)
    assert bucket.level == 20
    bucket = Bucket(1, 100, Clock())
    charged(bucket, 80, read=5 * READING).close(FAILURE)
    assert bucket.level == 95
    bucket = Bucket(1, 100, Clock())
    request = charged(bucket, 80, read=5 * READING)
    request.take_tokens(30, math.inf)
    request.computed()
    request.close(FAILURE)
    assert bucket.level == 95 - 25


def test_what_fails_before_it_is_charged_has_paid_for_reading_once() -> None:
    for error in (
        InvalidInput("inputs", "is empty"),
        Shed("full", Shortage.OUTPUT_BYTES, 1.0),
        None,
    ):
        bucket = Bucket(1, 100, Clock())
        request = request_of(bucket)
        request.has_read(5 * READING)
        request.close(error)
        assert bucket.level == 95, error


def test_a_request_larger_than_the_bucket_needs_a_full_one_and_owes_the_rest() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    bucket.charge(250)
    assert bucket.level == -150
    assert refusal(bucket, 10).retry_after_seconds == 16
    assert refusal(bucket, 1000).retry_after_seconds == 25


def test_while_work_runs_its_tokens_are_gone() -> None:
    bucket = Bucket(1, 100, Clock())
    request = charged(bucket, 80)
    refusal(bucket, 30)
    request.close(FAILURE)
    bucket.charge(30)


def test_no_more_is_put_back_than_the_bucket_holds() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    request = charged(bucket, 80)
    clock.now += 5
    request.close(FAILURE)
    request.close(FAILURE)  # a second time: nothing
    assert bucket.level == 100


# Steps of time in eighths, so that their sums are exact.
STEPS = st.lists(
    st.tuples(st.integers(0, 80), st.integers(0, 400), st.sampled_from(["done", "failed"])),
    max_size=60,
)


@given(steps=STEPS, rate=st.integers(1, 50), capacity=st.integers(1, 300))
def test_no_client_ever_has_more_than_its_rate_and_what_it_saved(
    steps: list[tuple[int, int, str]], rate: int, capacity: int
) -> None:
    """In any stretch of time: its length × rate + capacity.

    And, where one request is larger than that, the rest of it.
    """
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    paid: list[tuple[float, int]] = []
    for pause, tokens, end in steps:
        clock.now += pause / 8
        request = request_of(bucket)
        try:
            request.charge(tokens)
        except Shed as error:
            request.close(error)
            continue
        request.close(FAILURE if end == "failed" else None)
        if end == "done":
            paid.append((clock.now, tokens))
    for first, (begin, _) in enumerate(paid):
        total = 0
        for at, tokens in paid[first:]:
            total += tokens
            assert total <= (at - begin) * rate + max(capacity, tokens) + 1e-3


@given(steps=STEPS, rate=st.floats(0.5, 1e6), capacity=st.floats(1, 1e7))
def test_whoever_waits_as_told_is_let_in(
    steps: list[tuple[int, int, str]], rate: float, capacity: float
) -> None:
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    for pause, tokens, _ in steps:
        clock.now += pause / 8
        try:
            bucket.charge(tokens)
        except Shed as error:
            clock.now += error.retry_after_seconds or 0.0
            bucket.charge(tokens)


@given(steps=STEPS, rate=st.floats(0.5, 1e6), capacity=st.floats(1, 1e7))
def test_whoever_waits_as_told_is_let_in_though_each_try_is_read(
    steps: list[tuple[int, int, str]], rate: float, capacity: float
) -> None:
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    for pause, tokens, _ in steps:
        clock.now += pause / 8
        try:
            charged(bucket, tokens, read=tokens)
        except Shed as error:
            clock.now += error.retry_after_seconds or 0.0
            charged(bucket, tokens, read=tokens)


def test_clients_do_not_share_and_of_those_that_are_idle_the_fullest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 3)
    clock = Clock()
    quotas = Quotas(10, 10, clock)
    quotas.of("a").spend(100)
    quotas.of("b").spend(50)
    assert (quotas.of("a").level, quotas.of("b").level, quotas.of("c").level) == (0, 50, 100)
    clock.now += 5
    quotas.of("d")
    assert len(quotas._kept) == 3
    assert (quotas.of("a").level, quotas.of("d").level) == (50, 100)


def test_however_many_clients_owe_something_no_more_of_them_are_kept_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 20)
    quotas = Quotas(10, 10, Clock())
    for number in range(100):
        quotas.of(f"client {number}").spend(number)
        quotas.of("regular").spend(1)
    assert len(quotas._kept) == 20
    assert quotas.of("regular").level == 0, "who calls is not forgotten for others"


def test_a_client_with_a_call_under_way_has_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 2)
    quotas = Quotas(10, 10, Clock())
    of_the_call = quotas.of("a")
    for number in range(10):
        quotas.of(f"client {number}").spend(10)
    assert quotas.of("a") is of_the_call
    assert len(quotas._kept) == 2


def test_requests_of_a_client_have_one_account_and_others_none() -> None:
    bucket = Bucket(1, 100, Clock())
    request = request_of(bucket)
    request.has_read(160)
    assert bucket.level == 90
    request.charge(20)
    another = request_of(bucket)
    with pytest.raises(Shed):
        another.look_ahead(161, 1.0)
    another.look_ahead(160, 1.0)
    assert bucket.level == 80
    free = request_of(None)
    free.look_ahead(10**9, 1.0)
    free.has_read(10**9 / READ_CHARACTERS)
    free.has_read(160)
    free.charge(20)
    free.close(FAILURE)
    assert bucket.level == 80


def test_what_is_only_read_may_be_owed_but_no_more_while_it_is() -> None:
    bucket = Bucket(1, 100, Clock())
    request = request_of(bucket)
    request.look_ahead(10**6, -1.0, computes=False)
    request.has_read(101 * READING)
    assert bucket.level == -1
    with pytest.raises(Shed) as error:
        request_of(bucket).look_ahead(0, 1.0, computes=False)
    assert (error.value.shortage, error.value.retry_after_seconds) == (Shortage.QUOTA, 1.0)


def test_tokens_are_charged_beyond_the_characters_that_were() -> None:
    for characters, tokens, price in ((0, 32, 2), (256, 32, 2), (128, 32, 2), (512, 32, 4)):
        bucket = Bucket(1, 100, Clock())
        request = request_of(bucket)
        request.has_read(characters / READ_CHARACTERS)
        request.has_read(tokens)
        assert bucket.level == 100 - price, (characters, tokens)
        request.charge(1)
        assert bucket.level == 100 - price, "reading may have cost more"


def test_threads_take_from_a_bucket_what_they_take_alone() -> None:
    bucket = Bucket(1, 10**6, Clock())
    begin = threading.Barrier(4)

    def spend() -> None:
        begin.wait(30)
        for _ in range(2000):
            bucket.charge(3)
            bucket.spend(1)
            bucket.spend(-2)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert bucket.level == 10**6 - 4 * 2000 * 2
