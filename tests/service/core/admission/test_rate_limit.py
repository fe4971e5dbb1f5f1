"""Token buckets per client: charges, refunds and limits."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded, EngineError, InvalidInput
from headlight_service.core.admission import rate_limit as module
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.rate_limit import (
    CHARACTERS_PER_TOKENIZED,
    TOKENIZED_PER_COMPUTED,
    Bucket,
    Quotas,
)
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.admission.shed_error import Shed, Shortage
from tests.service.batching import Clock, at_once

FAILURE = EngineError("the model failed")


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(1, 100, Clock())


def refusal(bucket: Bucket, tokens: float) -> Shed:
    with pytest.raises(Shed) as error:
        bucket.charge(tokens)
    return error.value


def request_of(bucket: Bucket | None) -> RequestBudget:
    """Return the budget of a client's request."""
    admission = Admission(max_tokens=100, max_request_bytes=1, max_output_bytes=1)
    return RequestBudget(admission, WaitEstimate(1), "interactive", bucket)


def charged(bucket: Bucket | None, tokens: int, read: int = 0) -> RequestBudget:
    """Return a budget that was charged for so many tokens, of which so many were for reading."""
    request = request_of(bucket)
    request.charge_tokenizing(read)
    request.charge(tokens)
    return request


def test_a_refused_request_gets_the_time_until_enough_tokens() -> None:
    clock = Clock()
    bucket = Bucket(100, 1000, clock)
    bucket.charge(900)
    error = refusal(bucket, 300)
    assert (error.shortage, error.retry_after_seconds) == (Shortage.QUOTA, 2.0)
    assert "quota of 100 tokens a second" in error.message
    clock.now += 2.0
    bucket.charge(300)
    assert bucket.level == pytest.approx(0)


def test_failed_requests_are_refunded_and_abandoned_ones_are_not(bucket: Bucket) -> None:
    charged(bucket, 60).close(FAILURE)
    charged(bucket, 60).close(Shed("the queue is full", Shortage.QUEUE_TOKENS, 1.0))
    assert bucket.level == 100
    charged(bucket, 60).close(asyncio.CancelledError())
    assert bucket.level == 40
    charged(bucket, 30).close()
    assert bucket.level == 10


def test_computed_work_of_failed_and_expired_requests_is_charged(bucket: Bucket) -> None:
    request = charged(bucket, 80)
    request.take_tokens(30, math.inf)
    request.give_back_tokens()
    request.close(FAILURE)
    assert bucket.level == 70
    charged(bucket, 50).close(DeadlineExceeded("the caller's own"))
    assert bucket.level == 20


def test_the_reading_cost_is_part_of_the_price_and_not_refunded(bucket: Bucket) -> None:
    charged(bucket, 80, read=5 * TOKENIZED_PER_COMPUTED)
    assert bucket.level == 20
    bucket = Bucket(1, 100, Clock())
    charged(bucket, 80, read=5 * TOKENIZED_PER_COMPUTED).close(FAILURE)
    assert bucket.level == 95
    bucket = Bucket(1, 100, Clock())
    request = charged(bucket, 80, read=5 * TOKENIZED_PER_COMPUTED)
    request.take_tokens(30, math.inf)
    request.give_back_tokens()
    request.close(FAILURE)
    assert bucket.level == 95 - 25


def test_a_request_failing_before_its_charge_pays_for_reading_once() -> None:
    for error in (
        InvalidInput("inputs", "is empty"),
        Shed("full", Shortage.OUTPUT_BYTES, 1.0),
        None,
    ):
        bucket = Bucket(1, 100, Clock())
        request = request_of(bucket)
        request.charge_tokenizing(5 * TOKENIZED_PER_COMPUTED)
        request.close(error)
        assert bucket.level == 95, error


def test_a_request_larger_than_the_bucket_needs_a_full_bucket_and_leaves_a_debt() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    bucket.charge(250)
    assert bucket.level == -150
    assert refusal(bucket, 10).retry_after_seconds == 16
    assert refusal(bucket, 1000).retry_after_seconds == 25


def test_refunds_do_not_overfill_the_bucket() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    request = charged(bucket, 80)
    clock.now += 5
    request.close(FAILURE)
    request.close(FAILURE)  # a second time has no effect
    assert bucket.level == 100


# Time steps in eighths, so that their sums are exact.
STEPS = st.lists(
    st.tuples(st.integers(0, 80), st.integers(0, 400), st.sampled_from(["done", "failed"])),
    max_size=60,
)


@given(steps=STEPS, rate=st.integers(1, 50), capacity=st.integers(1, 300))
def test_no_client_exceeds_its_rate_and_burst(
    steps: list[tuple[int, int, str]], rate: int, capacity: int
) -> None:
    """In any period: its length × rate + capacity.

    If one request is larger than that, also the rest of it.
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


@given(
    steps=STEPS, rate=st.floats(0.5, 1e6), capacity=st.floats(1, 1e7), reads=st.sampled_from([0, 1])
)
def test_a_client_that_waits_the_retry_delay_is_admitted(
    steps: list[tuple[int, int, str]], rate: float, capacity: float, reads: int
) -> None:
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    for pause, tokens, _ in steps:
        clock.now += pause / 8
        try:
            charged(bucket, tokens, read=reads * tokens)
        except Shed as error:
            clock.now += error.retry_after_seconds or 0.0
            charged(bucket, tokens, read=reads * tokens)


def test_clients_have_separate_buckets_and_the_fullest_idle_one_is_evicted(
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


def test_the_number_of_buckets_is_bounded_even_with_debts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 20)
    quotas = Quotas(10, 10, Clock())
    for number in range(100):
        quotas.of(f"client {number}").spend(number)
        quotas.of("regular").spend(1)
    assert len(quotas._kept) == 20
    assert quotas.of("regular").level == 0, "who calls is not forgotten for others"


def test_a_bucket_is_not_evicted_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 2)
    quotas = Quotas(10, 10, Clock())
    of_the_call = quotas.of("a")
    for number in range(10):
        quotas.of(f"client {number}").spend(10)
    assert quotas.of("a") is of_the_call
    assert len(quotas._kept) == 2


def test_requests_of_a_client_share_one_bucket_and_others_are_unlimited(bucket: Bucket) -> None:
    request = request_of(bucket)
    request.charge_tokenizing(160)
    assert bucket.level == 90
    request.charge(20)
    another = request_of(bucket)
    with pytest.raises(Shed):
        another.refuse_early(161, 1.0)
    another.refuse_early(160, 1.0)
    assert bucket.level == 80
    free = request_of(None)
    free.refuse_early(10**9, 1.0)
    free.charge_tokenizing(10**9 / CHARACTERS_PER_TOKENIZED)
    free.charge_tokenizing(160)
    free.charge(20)
    free.close(FAILURE)
    assert bucket.level == 80


def test_read_only_requests_may_go_into_debt_but_not_while_in_debt(bucket: Bucket) -> None:
    request = request_of(bucket)
    request.refuse_early(10**6, -1.0, computes=False)
    request.charge_tokenizing(101 * TOKENIZED_PER_COMPUTED)
    assert bucket.level == -1
    with pytest.raises(Shed) as error:
        request_of(bucket).refuse_early(0, 1.0, computes=False)
    assert (error.value.shortage, error.value.retry_after_seconds) == (Shortage.QUOTA, 1.0)


def test_tokens_are_charged_beyond_the_reading_cost_already_paid() -> None:
    for characters, tokens, price in ((0, 32, 2), (256, 32, 2), (128, 32, 2), (512, 32, 4)):
        bucket = Bucket(1, 100, Clock())
        request = request_of(bucket)
        request.charge_tokenizing(characters / CHARACTERS_PER_TOKENIZED)
        request.charge_tokenizing(tokens)
        assert bucket.level == 100 - price, (characters, tokens)
        request.charge(1)
        assert bucket.level == 100 - price, "reading may have cost more"


def test_concurrent_threads_take_exact_amounts_from_a_bucket() -> None:
    bucket = Bucket(1, 10**6, Clock())

    def spend(_: int) -> None:
        for _ in range(2000):
            bucket.charge(3)
            bucket.spend(1)
            bucket.spend(-2)

    at_once(spend)
    assert bucket.level == 10**6 - 4 * 2000 * 2


def test_a_client_that_ignores_delays_spends_little_on_refusals() -> None:
    """It tries again every 5 ms. Each reading would cost it a sixteenth of the request."""
    clock = Clock()
    bucket, answered = Bucket(100.0, 1000.0, clock), 0
    bucket.spend(1000.0)
    end = clock.now + 60.0
    while clock.now < end:
        clock.now += 0.005
        request = request_of(bucket)
        try:
            request.refuse_early(200, math.inf)
            request.charge_tokenizing(200)
            request.charge(200)
        except Shed as error:
            request.close(error)
        else:
            answered += 1
            request.close()
    assert answered >= 0.85 * 60.0 * 100.0 / 200.0


def test_smaller_requests_need_not_wait_for_a_refused_one() -> None:
    bucket = Bucket(1.0, 100.0, Clock())
    bucket.spend(50.0)
    with pytest.raises(Shed):
        bucket.charge(80.0, estimate=80.0)
    with pytest.raises(Shed):
        bucket.check_early(80.0)
    bucket.check_early(40.0)
    bucket.charge(40.0, estimate=40.0)
