from __future__ import annotations

import numpy as np
import pytest

from headlight_model.evaluate.order_pairs import measure
from headlight_model.evaluate.ranking import Floats
from headlight_model.train.data.order import questions


def bag(texts: list[str]) -> Floats:
    """Return counts of letters, normalised to unit length."""
    counts = np.array(
        [[text.count(chr(code)) for code in range(32, 127)] for text in texts], dtype=float
    )
    unit: Floats = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return unit


def test_a_bag_of_words_chooses_by_chance() -> None:
    found = measure(bag)
    assert found.all == found.trained == found.kept_back == 0.5
    assert set(found.by_family.values()) == {0.5}
    assert found.questions == len(list(questions()))


def test_an_oracle_is_always_right() -> None:
    answers = {each.question: each.right for each in questions()} | {
        each.right: each.right for each in questions()
    }
    known = {text: place for place, text in enumerate(dict.fromkeys(answers.values()))}

    def knowing(texts: list[str]) -> Floats:
        vectors = np.zeros((len(texts), len(known)))
        for row, text in enumerate(texts):
            if text in answers:
                vectors[row, known[answers[text]]] = 1
        return vectors

    # A wrong answer may be right for another question.
    assert measure(knowing).all == pytest.approx(1.0, abs=0.05)
