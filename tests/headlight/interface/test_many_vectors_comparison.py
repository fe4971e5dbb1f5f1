"""Comparison by a model with a vector for each token: MaxSim, and shares that sum to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headlight import AsyncClient, InvalidInput
from headlight.comparison import EvidenceSpec
from headlight.runtime import Runtime
from headlight_export.parity.reference import WHOLE, Reference
from headlight_model.checkpoint import load_checkpoint
from tests import scorers
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime

QUERY, PASSAGES = "a planet", ["planets, or a star", "abcde", "x"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.bundle(tmp_path_factory, "multi_vector")


@pytest.fixture(scope="module")
def checkpoint(bundle: Path) -> Path:
    return bundle.with_name("checkpoint")


@pytest.fixture(scope="module")
def matching(bundle: Path) -> Iterator[Runtime]:
    with Runtime(bundle, threads=1) as runtime:
        yield runtime


def test_the_score_is_the_sum_of_the_largest_products(matching: Runtime) -> None:
    [query] = matching.encode_multi_vector(QUERY, role="query")
    documents = matching.encode_multi_vector(PASSAGES, role="document")
    expected = [float((query @ each.T).max(axis=1).sum()) for each in documents]
    compared = matching.compare(QUERY, PASSAGES, late_interaction=True, matrix="float32")
    assert compared.similarity == "max_sim"
    assert compared.query is not None
    assert len(compared.query_tokens) == len(query)
    for passage, score, document in zip(compared, expected, documents, strict=True):
        assert passage.score == pytest.approx(score, abs=1e-4)
        assert passage.max_sim_mean == pytest.approx(score / len(query), abs=1e-5)
        assert passage.matrix is not None
        np.testing.assert_allclose(passage.matrix, query @ document.T, atol=1e-5)
    scores = [each.score for each in matching.compare(QUERY, PASSAGES, sort=True)]
    assert scores == pytest.approx(sorted(expected, reverse=True), abs=1e-4)


def test_shares_of_words_and_special_tokens_sum_to_the_score(matching: Runtime) -> None:
    for passage in matching.compare(QUERY, PASSAGES, evidence="late_interaction"):
        [evidence] = passage.evidence
        assert evidence.special is not None
        total = evidence.weights.sum() + evidence.special.weights.sum()
        assert total == pytest.approx(passage.score, abs=1e-4)
        assert passage.tokens is not None
        marked = {passage.tokens.ids[token] for unit in evidence.special.units for token in unit}
        assert marked == {2, 3, scorers.ROLES["document"].marker}
        assert evidence.matched_cosines is not None
        assert evidence.matched_cosines.sum() == pytest.approx(passage.score, abs=1e-4)


def test_a_hidden_token_has_no_vector_and_none_sees_it(matching: Runtime, checkpoint: Path) -> None:
    reference = Reference(load_checkpoint(checkpoint).eval())
    occlusion = EvidenceSpec(method="occlusion", unit="token")
    [passage] = matching.compare(QUERY, ["planets"], evidence=occlusion)
    [query] = matching.encode_multi_vector(QUERY, role="query")
    assert passage.tokens is not None
    ids, [evidence] = np.array(passage.tokens.ids), passage.evidence
    assert len(evidence.units) == 7
    for [hidden], weight in zip(evidence.units, evidence.weights, strict=True):
        masks = WHOLE._replace(occluded=hidden)
        rows = np.delete(reference.outputs(ids, None, masks=masks)["multi_vector"], hidden, 0)
        without = float((query @ rows.T).max(axis=1).sum())
        assert weight == pytest.approx(passage.score - without, abs=1e-4)


async def test_a_client_gets_the_same(matching: Runtime) -> None:
    evidence = [EvidenceSpec(), EvidenceSpec(method="occlusion", unit="word", top_k=2)]
    wanted: dict[str, Any] = {"evidence": evidence, "late_interaction": True, "matrix": "float16"}
    expected = matching.compare(QUERY, PASSAGES, **wanted)
    served = cast(FakeRuntime, matching)
    async with serving(served) as service, AsyncClient(service.target) as client:
        found = await client.compare(QUERY, PASSAGES, **wanted)
    assert (found.similarity, found.query) == (expected.similarity, expected.query)
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        for mine, its in zip(one.evidence, other.evidence, strict=True):
            assert (mine.units, mine.matched_tokens) == (its.units, its.matched_tokens)
            np.testing.assert_allclose(mine.weights, its.weights, atol=1e-5)
            if its.special is not None:
                assert mine.special is not None
                np.testing.assert_allclose(mine.special.weights, its.special.weights, atol=1e-5)


def test_attention_is_refused_for_it_needs_a_vector_of_the_text(matching: Runtime) -> None:
    with pytest.raises(InvalidInput, match=r"evidence\[0\]\.method: is attention.*occlusion"):
        matching.compare(QUERY, PASSAGES, evidence="attention")
