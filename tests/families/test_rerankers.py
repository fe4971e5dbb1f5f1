"""Rerankers and classifiers in this process, compared with the libraries that made the folders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

from headlight.runtime import Runtime
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import Exported, export_origin
from tests.families.scorers import write_scorer

transformers.logging.set_verbosity_error()

QUERY = "what is red?"
# Ragged, two alike, and some of more tokens than the model takes beside the query.
DOCUMENTS = [
    "a planet is red",
    "mars",
    "green is a colour of grass and of leaves, and of much else too",
    "mars",
    "red",
    "x" * 90,
    "it is the sky that is blue, and the sea below it",
]


def exported(folder: Path) -> Exported:
    return export_origin(read_origin(folder / "model"), folder / "bundle")


class Reranker(NamedTuple):
    """A model of transformers, the folder of `model` and `bundle`, and the result of its export."""

    model: Any
    folder: Path
    result: Exported


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reranker]:
    """Return a function from the name of a scorer to its reranker, exported once."""

    @functools.cache
    def export(name: str) -> Reranker:
        folder = tmp_path_factory.mktemp("reranker")
        model = write_scorer(folder / "model", name, "SequenceClassification", 1)
        return Reranker(model, folder, exported(folder))

    return export


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "modernbert mean", "electra"])
def test_a_reranker_scores_and_orders_as_cross_encoder(
    name: str, reranker: Callable[[str], Reranker]
) -> None:
    _, folder, result = reranker(name)
    theirs = CrossEncoder(str(folder / "model"), device="cpu")
    pairs = [(QUERY, document) for document in DOCUMENTS]
    logits = theirs.predict(pairs, activation_fn=torch.nn.Identity())
    scores = theirs.predict(pairs)
    assert result.transformers.errors["scores"] <= 1e-5
    assert max(row.max_error for row in result.rows if row.output == "scores") <= 1e-5
    with Runtime(folder / "bundle") as runtime:
        found = runtime.rerank(QUERY, DOCUMENTS)
        alone = runtime.rerank(QUERY, [DOCUMENTS[2]])[0]
        best = runtime.rerank(QUERY, DOCUMENTS, top_n=2)
        model = runtime.model()
    assert (model.task, model.activation) == ("rerank", "sigmoid")
    order = [each.index for each in found]
    assert sorted(order) == list(range(len(DOCUMENTS)))
    assert (np.diff(logits[order]) <= 1e-5).all()  # two are alike
    assert [each.document for each in found] == [DOCUMENTS[each.index] for each in found]
    for each in found:
        limit = 1e-5 * max(1.0, abs(logits[each.index]))
        assert abs(each.logit - logits[each.index]) <= limit, each
        assert each.score == pytest.approx(scores[each.index], abs=1e-5)
        assert (each.cut_tokens > 0) == (each.index in (2, 5, 6))
    assert alone.logit == pytest.approx(logits[2], abs=1e-5)
    assert best == found[:2]
    assert np.ptp(logits) > 0.05


@pytest.mark.parametrize(
    ("labels", "settings", "activation"),
    [
        (3, {}, "softmax"),
        (3, {"problem_type": "multi_label_classification"}, "sigmoid"),
        (1, {"problem_type": "regression"}, "identity"),
    ],
)
def test_a_classifier_gives_the_scores_of_the_pipeline(
    labels: int, settings: dict[str, Any], activation: str, tmp_path: Path
) -> None:
    write_scorer(tmp_path / "model", "roberta", "SequenceClassification", labels, settings)
    exported(tmp_path)
    theirs = transformers.pipeline("text-classification", str(tmp_path / "model"), device="cpu")
    with Runtime(tmp_path / "bundle") as runtime:
        assert runtime.model().activation == activation
        found = runtime.classify(DOCUMENTS, truncate="end")
        for document, ours in zip(DOCUMENTS, found, strict=True):
            expected = theirs(document, top_k=None, truncation=True)
            assert [each.label for each in ours] == [each["label"] for each in expected]
            assert [each.score for each in ours] == pytest.approx(
                [each["score"] for each in expected], abs=1e-5
            )


@pytest.mark.parametrize("name", ["bert", "distilbert", "modernbert"])
def test_each_token_is_classified(name: str, tmp_path: Path) -> None:
    model = write_scorer(tmp_path / "model", name, "TokenClassification", 4)
    result = exported(tmp_path)
    # The design's tolerance: PyTorch's own float32 is 1e-5 off its float64 for ModernBERT's head.
    limit = max(1e-5, 4 * result.own_error["scores"])
    assert result.transformers.errors["scores"] <= limit
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with Runtime(tmp_path / "bundle") as runtime:
        found = runtime.scores(DOCUMENTS[:4], truncate="end")
        for text, ours in zip(DOCUMENTS[:4], found, strict=True):
            inputs = tokenizer(text, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                logits = model(**inputs).logits[0]
            np.testing.assert_allclose(ours.logits, logits, atol=limit, rtol=limit)
            np.testing.assert_allclose(ours.values, logits.softmax(-1), atol=1e-5)
            assert ours.labels == ("class 0", "class 1", "class 2", "class 3")


def test_attention_and_tokens_of_a_reranker_are_those_of_its_encoder(
    reranker: Callable[[str], Reranker],
) -> None:
    model, folder, _ = reranker("bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    inputs = tokenizer(QUERY, DOCUMENTS[0], return_tensors="pt")
    with torch.inference_mode():
        theirs = model.base_model(**inputs, output_attentions=True)
    with Runtime(folder / "bundle") as runtime:
        maps = runtime.attend((QUERY, DOCUMENTS[0]))
        [tokens] = runtime.encode_tokens([(QUERY, DOCUMENTS[0])])
    np.testing.assert_allclose(maps.weights, torch.cat(theirs.attentions), atol=1e-5)
    np.testing.assert_allclose(tokens, theirs.last_hidden_state[0], atol=2e-5)
