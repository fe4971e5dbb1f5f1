from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from headlight_service.core.scheduler.bulk_batch_size import LONE, RECENT, WORTH, BulkBatchSize
from headlight_service.core.scheduler.lanes import BatchLimit

WIDE = BatchLimit(10**6, 10**9)


def test_the_first_bulk_batch_has_one_item() -> None:
    assert not BulkBatchSize().limit(WIDE, 1.0).admits(2, 1, 2)
    assert BulkBatchSize().limit(WIDE, math.inf) == WIDE


def test_token_and_square_limits_follow_from_the_target_time() -> None:
    size = BulkBatchSize()
    size.learn(count=4, longest=50, seconds=0.1)
    assert size.limit(WIDE, 0.05) == BatchLimit(100, 5000)
    assert size.limit(BatchLimit(10**6, None, 0.3), 0.05) == BatchLimit(100, None, 0.3)
    assert size.limit(BatchLimit(64, 300), 60.0) == BatchLimit(64, 300), "the lane's own"


def test_a_few_delayed_batches_do_not_change_the_limit() -> None:
    size = BulkBatchSize()
    for place in range(RECENT):
        size.learn(10, 10, 5.0 if place < RECENT // 2 else 0.1)
    assert size.limit(WIDE, 0.1).tokens == 100


def test_a_lasting_change_of_rate_is_learned() -> None:
    size = BulkBatchSize()
    for seconds in [0.1] * 50 + [0.2] * (RECENT // 2 + 1):
        size.learn(10, 10, seconds)
    assert size.limit(WIDE, 0.1).tokens == 50


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(1, 8192), st.floats(0, 100)), max_size=30),
    st.floats(1e-3, 60),
)
def test_a_limit_is_never_less_than_one(
    batches: list[tuple[int, int, float]], seconds: float
) -> None:
    size = BulkBatchSize()
    for batch in batches:
        size.learn(*batch)
    limit = size.limit(WIDE, seconds)
    assert limit.tokens >= 1
    assert limit.squares is None or limit.squares >= 1


LENGTH, LIMIT = 50, 0.025


def counts(seconds_of: Callable[[int], float], batches: int = 100) -> list[int]:
    """Return the item counts of batches, with so many waiting, and a function for the time."""
    size, found = BulkBatchSize(), []
    for _ in range(batches):
        count = max(1, min(1000, size.limit(WIDE, LIMIT).tokens // LENGTH))
        size.learn(count, LENGTH, seconds_of(count))
        found.append(count)
    return found


@given(st.floats(0, 0.3), st.floats(1e-4, 0.3))
def test_batches_converge_to_the_target_time_for_any_cost(fixed: float, one: float) -> None:
    found = counts(lambda count: fixed + one * count)[50:]
    allowed = max(LIMIT, WORTH * fixed)
    best = max(1, min(1000, math.floor((allowed - fixed) / one)))
    if best == 1:
        assert sum(found) - len(found) <= 1 + len(found) // LONE, (
            "but for one now and then that tries whether more is possible"
        )
    else:
        assert all(0.7 * best - 1 <= count <= 1.05 * best + 1 for count in found)


def test_a_lasting_change_is_learned_with_a_high_fixed_cost() -> None:
    size, found = BulkBatchSize(), list[int]()
    for place in range(300):
        count = max(1, min(1000, size.limit(WIDE, LIMIT).tokens // LENGTH))
        size.learn(count, LENGTH, 0.03 + 0.0001 * count if place < 100 else 0.002 + 0.001 * count)
        found.append(count)
    assert min(found[50:100]) >= 70
    assert all(15 <= count <= 24 for count in found[200:])


def test_noise_does_not_shrink_batches_with_a_high_fixed_cost() -> None:
    """As on a machine with other work: a fifth more or less."""
    noise = random.Random(5)
    found = counts(lambda count: (0.1 + 0.0005 * count) * noise.lognormvariate(0, 0.2), 300)
    assert statistics.median(found[100:]) >= 20
