"""Buckets of tokens: what a client can have computed, and what is given back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import DeadlineExceeded, EngineError
from headlight_service.core.admission import rate_limit as module
from headlight_service.core.admission.admission_control import Shed, Shortage
from headlight_service.core.admission.rate_limit import (
    READING,
    Bucket,
    Quotas,
    charge,
    has_read,
    look_ahead,
    on_account_of,
)
from tests.service.batching import Clock


def refusal(bucket: Bucket, tokens: float) -> Shed:
    with pytest.raises(Shed) as error, bucket.charge(tokens):
        pass
    return error.value


def test_a_request_that_finds_too_little_is_told_when_it_will_be_enough() -> None:
    clock = Clock()
    bucket = Bucket(100, 1000, clock)
    with bucket.charge(900):
        pass
    error = refusal(bucket, 300)
    assert (error.shortage, error.retry_after_seconds) == (Shortage.QUOTA, 2.0)
    assert "quota of 100 tokens a second" in error.message
    clock.now += 2.0
    with bucket.charge(300):
        pass
    assert bucket.level == pytest.approx(0)


def test_what_fails_is_paid_back_and_what_nobody_waits_for_is_not() -> None:
    bucket = Bucket(1, 100, Clock())
    with pytest.raises(EngineError), bucket.charge(60):
        raise EngineError("the model failed")
    with pytest.raises(Shed), bucket.charge(60):
        raise Shed("the queue is full", Shortage.QUEUE_TOKENS, 1.0)
    assert bucket.level == 100
    with pytest.raises(asyncio.CancelledError), bucket.charge(60):
        raise asyncio.CancelledError
    assert bucket.level == 40


def test_what_was_computed_of_a_failed_request_is_paid_and_so_is_all_that_a_deadline_cut_short() -> None:
    bucket = Bucket(1, 100, Clock())
    with contextlib.suppress(EngineError), bucket.charge(80) as charge:
        charge.done += 30
        raise EngineError("the model failed")
    assert bucket.level == 70
    with contextlib.suppress(DeadlineExceeded), bucket.charge(50):
        raise DeadlineExceeded("the caller's own")
    assert bucket.level == 20


def test_what_was_read_is_a_part_of_the_price_and_never_put_back() -> None:
    bucket = Bucket(1, 100, Clock())
    bucket.spend(5)
    with bucket.charge(80, paid=5):
        assert bucket.level == 20
    bucket = Bucket(1, 100, Clock())
    bucket.spend(5)
    with contextlib.suppress(EngineError), bucket.charge(80, paid=5):
        raise EngineError("the model failed")
    assert bucket.level == 95
    with contextlib.suppress(EngineError), bucket.charge(80, paid=5) as charge:
        charge.done += 30
        raise EngineError("the model failed")
    assert bucket.level == 95 - 25


def test_a_request_larger_than_the_bucket_needs_a_full_one_and_owes_the_rest() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    with bucket.charge(250):
        pass
    assert bucket.level == -150
    assert refusal(bucket, 10).retry_after_seconds == 16
    assert refusal(bucket, 1000).retry_after_seconds == 25


def test_while_work_runs_its_tokens_are_gone() -> None:
    bucket = Bucket(1, 100, Clock())
    with bucket.charge(80):
        refusal(bucket, 30)


# Steps of time in eighths, so that their sums are exact.
STEPS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 400), st.sampled_from(["done", "failed"])), max_size=60)


@given(steps=STEPS, rate=st.integers(1, 50), capacity=st.integers(1, 300))
def test_no_client_ever_has_more_than_its_rate_and_what_it_saved(
    steps: list[tuple[int, int, str]], rate: int, capacity: int
) -> None:
    """In any stretch of time: its length × rate + capacity; and, where one request is larger than that, the rest of it."""
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    paid: list[tuple[float, int]] = []
    for pause, tokens, end in steps:
        clock.now += pause / 8
        with contextlib.suppress(Shed, EngineError), bucket.charge(tokens):
            if end == "failed":
                raise EngineError("the model failed")
            paid.append((clock.now, tokens))
    for first, (begin, _) in enumerate(paid):
        total = 0
        for at, tokens in paid[first:]:
            total += tokens
            assert total <= (at - begin) * rate + max(capacity, tokens) + 1e-3


@given(steps=STEPS, rate=st.floats(0.5, 1e6), capacity=st.floats(1, 1e7))
def test_whoever_waits_as_told_is_let_in(steps: list[tuple[int, int, str]], rate: float, capacity: float) -> None:
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    for pause, tokens, _ in steps:
        clock.now += pause / 8
        try:
            with bucket.charge(tokens):
                continue
        except Shed as error:
            clock.now += error.retry_after_seconds or 0.0
        with bucket.charge(tokens):
            pass


@given(steps=STEPS, rate=st.floats(0.5, 1e6), capacity=st.floats(1, 1e7))
def test_whoever_waits_as_told_is_let_in_though_each_try_is_read(
    steps: list[tuple[int, int, str]], rate: float, capacity: float
) -> None:
    clock = Clock()
    bucket = Bucket(rate, capacity, clock)
    for pause, tokens, _ in steps:
        clock.now += pause / 8
        read = tokens / READING
        bucket.spend(read)
        try:
            with bucket.charge(tokens, read):
                continue
        except Shed as error:
            clock.now += error.retry_after_seconds or 0.0
        bucket.spend(read)
        with bucket.charge(tokens, read):
            pass


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
    assert len(quotas) == 3
    assert (quotas.of("a").level, quotas.of("d").level) == (50, 100)


def test_however_many_clients_owe_something_no_more_of_them_are_kept_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 20)
    quotas = Quotas(10, 10, Clock())
    for number in range(100):
        quotas.of(f"client {number}").spend(number)
        quotas.of("regular").spend(1)
    assert len(quotas) == 20
    assert quotas.of("regular").level == 0, "who calls is not forgotten for others"


def test_a_client_with_a_call_under_way_has_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BUCKETS", 2)
    quotas = Quotas(10, 10, Clock())
    of_the_call = quotas.of("a")
    for number in range(10):
        quotas.of(f"client {number}").spend(10)
    assert quotas.of("a") is of_the_call
    assert len(quotas) == 2


async def test_a_task_and_those_that_it_starts_have_one_account_and_others_none() -> None:
    bucket = Bucket(1, 100, Clock())

    async def part() -> None:
        has_read(160)
        with charge(20, read=160):
            pass

    async def call() -> None:
        on_account_of(bucket)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(part())
        with pytest.raises(Shed):
            look_ahead(161)
        look_ahead(160)

    await asyncio.create_task(call())
    assert bucket.level == 80
    await part()
    assert bucket.level == 80
