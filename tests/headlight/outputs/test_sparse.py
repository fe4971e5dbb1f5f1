"""The largest weights of a text's terms."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headlight.outputs.sparse import TermChoice, largest, terms_of
from headlight.runtime.values import Floats

WEIGHTS = arrays(np.float32, st.integers(1, 40), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@given(WEIGHTS, st.integers(1, 50), st.sampled_from([0.0, 0.75]))
def test_the_largest_are_kept_by_ascending_term(weights: Floats, most: int, least: float) -> None:
    most = min(most, len(weights))
    choice = TermChoice(most, least, len(weights))
    values, indices = largest(np.arange(len(weights)), weights, choice)
    usable = np.flatnonzero((weights > 0) & (weights >= least))
    count = min(most, len(usable))
    kept = indices[:count]
    assert len(values) == len(indices) == most
    assert not values[count:].any()
    assert (np.diff(kept.astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(values[:count], weights[kept])
    # Of equal weights, those of the first terms.
    expected = sorted(usable, key=lambda term: (-weights[term], term))[:count]
    assert sorted(expected) == kept.tolist()


@given(WEIGHTS, st.data())
def test_a_term_has_the_largest_weight_of_its_tokens(weights: Floats, data: st.DataObject) -> None:
    ids = data.draw(arrays(np.int64, len(weights), elements=st.integers(0, 9)))
    terms, values = terms_of(ids, weights)
    assert terms.tolist() == sorted({*ids.tolist()})
    assert values.tolist() == [weights[ids == term].max() for term in terms]
