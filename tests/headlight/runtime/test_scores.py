"""Scores of models with a head for them, exported and computed in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from headlight import InvalidInput
from headlight.runtime import Runtime
from headlight_model.checkpoint import load_checkpoint
from tests import scorers

DOCUMENTS = ["red", "a planet, and more of it", "x" * 60, "red"]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.folder(tmp_path_factory, "reranker")


@pytest.fixture(scope="module")
def ranking(reranker: Path) -> Iterator[Runtime]:
    with Runtime(reranker / "bundle", threads=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def tagging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(scorers.bundle(tmp_path_factory, "tagger"), threads=1) as runtime:
        yield runtime


def test_a_reranker_gives_the_logits_of_pytorch(ranking: Runtime, reranker: Path) -> None:
    encoder = load_checkpoint(reranker / "checkpoint")
    found = ranking.rerank("what is red", DOCUMENTS)
    assert sorted(each.index for each in found) == [0, 1, 2, 3]
    assert [each.logit for each in found] == sorted((each.logit for each in found), reverse=True)
    assert ranking.tokenizer is not None
    for each in found:
        ids = ranking.tokenizer.encode("what is red", each.document, truncation="cut_end")
        assert ids.segments is not None
        with torch.inference_mode():
            out = encoder(
                torch.from_numpy(ids.ids)[None], segments=torch.from_numpy(ids.segments)[None]
            )
        expected = float(out.heads["logits"][0, 0])
        assert abs(each.logit - expected) <= 1e-5 * max(1, abs(expected))
        assert each.score == pytest.approx(1 / (1 + np.exp(-expected)), abs=1e-6)
        assert each.cut_tokens == ids.original_length - len(ids.ids)


def test_only_the_document_is_cut_if_asked(ranking: Runtime) -> None:
    query = "what is red, and what is green"
    both = ranking.rerank(query, DOCUMENTS[2:3])[0]
    [alone] = ranking.rerank(query, DOCUMENTS[2:3], truncate="only_second")
    assert both.cut_tokens == alone.cut_tokens > 0
    assert both.logit != alone.logit
    assert ranking.tokenizer is not None
    ids = ranking.tokenizer.encode(query, DOCUMENTS[2], truncation="cut_second", with_info=True)
    assert ids.info is not None
    first = [segment for segment in ids.info.segments if segment == 0]
    assert len(first) == 2 + len(query.replace(" ", ""))


@pytest.mark.parametrize(
    ("query", "documents", "options", "message"),
    [
        (
            "q" * 37,
            ["a"],
            {"truncate": "only_second"},
            "query: has 40 tokens with special tokens, the model takes 40, and nothing is left",
        ),
        ("q", ["a", "b" * 60], {"truncate": "refuse"}, r"documents\[1\]: has 64 tokens"),
        ("", ["a"], {}, "query: is empty"),
        ("q", ["a", ""], {}, r"documents\[1\]: is empty"),
    ],
)
def test_what_cannot_be_scored_is_named(
    ranking: Runtime, query: str, documents: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        ranking.rerank(query, documents, **options)  # type: ignore[arg-type]


def test_a_reranker_gives_no_vectors_of_texts(ranking: Runtime) -> None:
    with pytest.raises(InvalidInput, match="gives no pooled; it gives tokens, attention, hidden"):
        ranking.encode("a text")
    assert ranking.attend(("a", "b")).weights.shape[-1] == 5
    assert [each.segments for each in ranking.tokenize([("a", "b")])] == [(0, 0, 0, 1, 1)]
    assert ranking.model().task == "rerank"


def test_a_model_for_vectors_gives_no_scores(runtime: Runtime) -> None:
    with pytest.raises(InvalidInput, match="gives no scores; it gives pooled"):
        runtime.classify(["a text"])


def test_tokens_are_scored_by_their_labels(tagging: Runtime) -> None:
    short, long = tagging.scores(["ab", "a planet is red"])
    [alone] = tagging.scores(["ab"])
    assert short.logits.shape == short.values.shape == (4, 3)
    assert long.logits.shape == (long.token_count, 3)
    np.testing.assert_allclose(short.logits, alone.logits, atol=1e-5)
    np.testing.assert_allclose(long.values.sum(axis=1), 1, atol=1e-6)
    with pytest.raises(InvalidInput, match="scores of each token, not of a text; call scores"):
        tagging.classify(["ab"])
    with pytest.raises(InvalidInput, match="documents\\[0\\]"):
        tagging.rerank("a", ["b"])
