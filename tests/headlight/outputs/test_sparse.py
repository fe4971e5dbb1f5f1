"""The largest weights of a text's terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headlight import BundleError
from headlight.outputs.sparse import TermChoice, largest, terms_of
from headlight.runtime import Runtime
from headlight.runtime.bundle.query_terms import load_query_terms
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.providers.session import Session
from headlight.runtime.values import Floats
from tests import scorers
from tests.factory import VOCABULARY

# Of the terms of queries; [CLS] and [SEP], around a text, are none.
STATIC = np.linspace(0, 1, len(VOCABULARY), dtype=np.float32)
QUERY = {"query": RoleRules(max_length=40, skiplist=(2, 3))}
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


def test_terms_of_queries_may_have_weights_of_their_own(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    from headlight_export.writer import fp32_parts

    traced = onnx.load(scorers.bundle(tmp_path_factory, "sparse") / "attend.onnx")
    with monkeypatch.context() as patch:  # tracing takes seconds
        patch.setattr(fp32_parts, "trace", lambda _: traced)
        bundle = scorers.write(tmp_path / "model", scorers.sparse(), QUERY, STATIC)
    with Runtime(bundle, threads=1) as runtime:
        [document] = runtime.encode_sparse("abba", role="document")
        [unset] = runtime.encode_sparse("abba")
        with monkeypatch.context() as patch:
            patch.delattr(Session, "run")
            texts = runtime.encode_sparse(["abba", "b"], role="query")
            [ids] = runtime.encode_sparse([[5, 31, 5]], role="query")
    np.testing.assert_array_equal(document.values, unset.values)
    assert len(document.indices) > 3
    for vector, terms in zip([*texts, ids], [[5, 31, 32], [6], [5, 31]], strict=True):
        assert vector.indices.tolist() == terms
        np.testing.assert_array_equal(vector.values, STATIC[terms])


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": STATIC[:-1]},
        {"weights": -STATIC},
        {"weights": STATIC.astype(np.float64)},
        {"weights": np.full_like(STATIC, np.nan)},
        {"ranges": STATIC},
    ],
)
def test_other_weights_of_queries_are_refused(arrays: dict[str, Floats], tmp_path: Path) -> None:
    np.savez(tmp_path / "terms.npz", allow_pickle=False, **arrays)
    with pytest.raises(BundleError, match=f"does not hold weights, float32 .{len(VOCABULARY)}."):
        load_query_terms(tmp_path / "terms.npz", len(VOCABULARY))


@given(WEIGHTS, st.data())
def test_a_term_has_the_largest_weight_of_its_tokens(weights: Floats, data: st.DataObject) -> None:
    ids = data.draw(arrays(np.int64, len(weights), elements=st.integers(0, 9)))
    terms, values = terms_of(ids, weights)
    assert terms.tolist() == sorted({*ids.tolist()})
    assert values.tolist() == [weights[ids == term].max() for term in terms]
