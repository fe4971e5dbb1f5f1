"""Scores of logits, and the order of documents and labels."""

from __future__ import annotations

import numpy as np
import pytest

from headlight import InvalidInput
from headlight.interface.scoring import activated, classified, documents_of, falling, ranked
from headlight.results import ModelRef, Scores

MODEL = ModelRef("m", "1", "00", "cpu", "fp32")


def scores(*logits: float) -> Scores:
    numbers = np.array(logits, np.float32)
    labels = tuple(f"L{at}" for at in range(len(logits)))
    return Scores(numbers, activated(numbers, "sigmoid"), labels, 3, 0, MODEL)


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_large_logits_do_not_overflow(activation: str) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = activated(np.array([[-3e38, 0.0, 3e38]], np.float32), activation)
    assert found.tolist() == [[0.0, 0.5 if activation == "sigmoid" else 0.0, 1.0]]
    assert found.dtype == np.float32


def test_scores_are_those_of_the_formulas() -> None:
    logits = np.array([-2.5, 0.3, 4.0], np.float32)
    exact = logits.astype(np.float64)
    np.testing.assert_allclose(activated(logits, "sigmoid"), 1 / (1 + np.exp(-exact)), rtol=1e-6)
    expected = np.exp(exact) / np.exp(exact).sum()
    np.testing.assert_allclose(activated(logits, "softmax"), expected, rtol=1e-6)
    assert activated(logits, "identity") is logits


def test_saturated_scores_keep_the_order_of_their_logits() -> None:
    found = [scores(20.0), scores(30.0), scores(-1.0), scores(30.0)]
    order = ranked([str(at) for at in range(4)], found, 3)
    assert [(each.index, each.document) for each in order] == [(1, "1"), (3, "3"), (0, "0")]
    assert {each.score for each in order} == {1.0}


def test_labels_come_by_falling_logit() -> None:
    [labels] = classified([scores(1.0, 25.0, 30.0)])
    assert [each.label for each in labels] == ["L2", "L1", "L0"]
    assert falling(np.array([1.0, 1.0], np.float32)) == [0, 1]


@pytest.mark.parametrize(
    ("query", "documents", "top_n", "message"),
    [
        (("a", "b"), ["c"], None, "query: must be a text"),
        ("q", [], None, "documents: is empty"),
        ("q", ["a", 3], None, r"documents\[1\]: must be a text"),
        ("q", 3, None, "documents: must be a list of texts"),
        ("q", ["a"], 0, "top_n: must be a whole number from 1"),
        ("q", ["a"], True, "top_n: must be a whole number from 1"),
    ],
)
def test_invalid_arguments_are_named(
    query: object, documents: object, top_n: object, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        documents_of(query, documents, top_n)
