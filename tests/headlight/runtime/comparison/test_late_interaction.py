"""Late interaction: against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

from headlight.outputs.vector_forms import unit_length
from headlight.runtime.comparison import late_interaction
from headlight.runtime.comparison.late_interaction import (
    Matches,
    best_matches,
    matches,
    max_sim,
    max_sim_mean,
    token_cosines,
    token_parts,
)
from headlight.runtime.values import Floats


def vectors(count: int, seed: int) -> Floats:
    return unit_length(np.random.default_rng(seed).standard_normal((count, 12), np.float32))


@pytest.mark.parametrize(("queries", "tokens"), [(1, 1), (3, 7), (9, 2)])
def test_max_sim_is_that_of_loops(queries: int, tokens: int) -> None:
    query, passage = vectors(queries, 1), vectors(tokens, 2)
    found = matches(token_cosines(query, passage))
    cosines = [[float(np.dot(q.astype(float), p)) for p in passage] for q in query]
    assert found.rows.tolist() == [row.index(max(row)) for row in cosines]
    expected = sum(map(max, cosines)) / queries
    assert max_sim_mean(found) == pytest.approx(expected, abs=1e-6)


def test_parts_of_tokens_sum_to_the_score() -> None:
    found = matches(token_cosines(vectors(9, 3), vectors(4, 4)))
    parts = token_parts(found, 4)
    assert parts.sum() == pytest.approx(max_sim(vectors(9, 3), vectors(4, 4)), abs=1e-6)
    assert parts.sum() == pytest.approx(9 * max_sim_mean(found), abs=1e-5)
    assert set(np.flatnonzero(parts)) == set(found.rows.tolist())


@pytest.mark.parametrize(("queries", "tokens"), [(0, 3), (3, 0)])
def test_without_tokens_there_are_no_matches(queries: int, tokens: int) -> None:
    found = matches(token_cosines(vectors(queries, 1), vectors(tokens, 2)))
    assert (len(found.rows), max_sim_mean(found)) == (0, 0.0)
    assert token_parts(found, tokens).tolist() == [0.0] * tokens


@pytest.mark.parametrize("block", [1, 21, 40, 1000])
@pytest.mark.parametrize(("queries", "tokens"), [(9, 7), (1, 7), (0, 7), (9, 0)])
def test_blocks_of_the_query_have_the_same_matches(
    monkeypatch: pytest.MonkeyPatch, block: int, queries: int, tokens: int
) -> None:
    query, passage = vectors(queries, 1), vectors(tokens, 2)
    expected, sizes = matches(token_cosines(query, passage)), list[int]()

    def counted(cosines: Floats) -> Matches:
        sizes.append(cosines.size)
        return matches(cosines)

    monkeypatch.setattr(late_interaction, "BLOCK", block)
    monkeypatch.setattr(late_interaction, "matches", counted)
    found = best_matches(query, passage)
    assert found.rows.tolist() == expected.rows.tolist()
    np.testing.assert_allclose(found.cosines, expected.cosines, atol=1e-6, rtol=0)
    assert max(sizes) <= max(block, tokens)


def test_of_equal_cosines_the_first_token_counts() -> None:
    query = vectors(1, 5)
    assert matches(token_cosines(query, np.repeat(query, 3, axis=0))).rows.tolist() == [0]
