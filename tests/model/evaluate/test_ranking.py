from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_model.evaluate.ranking import (
    best_weight,
    bootstrap,
    fuse,
    hits,
    ranks,
    reciprocal_ranks,
    standardised,
)


def test_ties_count_against_the_right_answer() -> None:
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.2, 0.2], [0.3, 0.3 + 1e-9, 0.1]])
    assert ranks(scores, [1, 0, 0]).tolist() == [2, 3, 2]


def test_figures_match_an_example_by_hand() -> None:
    of_questions = np.array([1, 2, 10, 11])
    assert reciprocal_ranks(of_questions).tolist() == [1.0, 0.5, 0.1, 0.0]
    assert hits(of_questions).tolist() == [1.0, 1.0, 1.0, 0.0]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_the_interval_contains_the_mean(differences: list[float]) -> None:
    interval = bootstrap(np.array(differences))
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
    assert min(differences) - 1e-9 <= interval.low <= interval.high <= max(differences) + 1e-9


def test_the_interval_is_that_of_a_mean() -> None:
    sample = np.random.default_rng(0).normal(0.3, 1.0, size=400)
    interval = bootstrap(sample)
    error = sample.std() / 20
    assert interval.low == pytest.approx(sample.mean() - 1.96 * error, abs=0.02)
    assert interval.high == pytest.approx(sample.mean() + 1.96 * error, abs=0.02)


def test_correlated_questions_within_groups_widen_the_interval() -> None:
    of_group = np.random.default_rng(0).normal(size=20)
    groups = [f"m{index}" for index in range(20) for _ in range(20)]
    alone, together = bootstrap(of_group.repeat(20)), bootstrap(of_group.repeat(20), groups)
    assert together.high - together.low > 3 * (alone.high - alone.low)
    assert together.mean == alone.mean


def test_groups_are_weighted_by_size() -> None:
    interval = bootstrap(np.array([1.0, 1.0, 1.0, 0.0]), ["a", "a", "a", "b"])
    assert (interval.mean, interval.low, interval.high) == (0.75, 0.0, 1.0)


def test_rows_are_standardised() -> None:
    rows = standardised(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    assert rows.mean(axis=1).tolist() == pytest.approx([0, 0])
    assert rows.std(axis=1).tolist() == pytest.approx([1, 0])


def test_fusion_prefers_the_better_ranking() -> None:
    good, misleading = np.eye(6), np.eye(6)[::-1].copy()
    answers = list(range(6))
    assert best_weight(good, misleading, answers) > 0.5
    assert best_weight(misleading, good, answers) < 0.5


def test_fusion_of_two_complementary_rankings_finds_all() -> None:
    answers = list(range(6))
    left, right = np.eye(6), np.eye(6)
    left[3:], right[:3] = 0, 0
    of_fusion = ranks(fuse(left, right, best_weight(left, right, answers)), answers)
    assert of_fusion.tolist() == [1] * 6
    assert ranks(left, answers).tolist() == [1, 1, 1, 6, 6, 6]
    assert ranks(right, answers).tolist() == [6, 6, 6, 1, 1, 1]
