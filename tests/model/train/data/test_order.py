from __future__ import annotations

import re

import numpy as np
import pytest

from headlight_model.texts.corpus import Part
from headlight_model.train.data import order
from headlight_model.train.data.order import (
    KEPT_BACK,
    TRAINED,
    Triplet,
    draw,
    fillers,
    questions,
    templates,
    words,
)

FILL = words(Part.TRAINING)


def said(text: str) -> list[str]:
    return sorted(re.findall(r"\w+|[^\w\s]", text.replace("_", " ")))


@pytest.mark.parametrize("triplet", list(questions(each=1)), ids=lambda each: each.right)
def test_both_answers_have_the_same_words(triplet: Triplet) -> None:
    assert triplet.right != triplet.wrong
    assert triplet.question != triplet.other_question
    assert said(triplet.right) == said(triplet.wrong)
    assert said(triplet.question) == said(triplet.other_question)


def test_test_words_are_not_in_training() -> None:
    held, learnt = set(words(Part.TEST)), set(words(Part.TRAINING))
    assert held.isdisjoint(learnt)
    assert len(held) > 30
    pieces = [*held, "parser", "##ing", "(", "for"]
    assert fillers(pieces) == ["parser"]
    drawn = draw(np.random.default_rng(0), 500, ["parser", "reader"])
    used = {word for each in drawn for word in re.findall(r"[a-z]+", each.right)}
    assert used.isdisjoint(held - set(re.findall(r"[a-z]+", str(TRAINED))))


def test_test_templates_are_not_in_training() -> None:
    assert not set(templates(KEPT_BACK)) & set(templates(TRAINED))
    assert {family for family, _, _ in templates(KEPT_BACK)} == set(TRAINED)
    assert {each.trained for each in questions(each=1)} == {True, False}


def test_questions_are_the_same_every_time() -> None:
    assert list(questions()) == list(questions())
    first, other = (draw(np.random.default_rng(seed), 10, FILL) for seed in (0, 1))
    assert first == draw(np.random.default_rng(0), 10, FILL) != other


def test_a_template_is_filled_in_both_orders() -> None:
    made = order.triplet("arguments", "subtract {a} from {b}", "{b} - {a}", "x", "y")
    assert (made.question, made.right) == ("subtract x from y", "y - x")
    assert (made.other_question, made.wrong) == ("subtract y from x", "x - y")
