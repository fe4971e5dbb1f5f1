from __future__ import annotations

import numpy as np
import pytest

from headlight_model.evaluate import lexical
from headlight_model.evaluate.task import Task
from headlight_model.texts.functions import Function


def function(name: str, summary: str, *words: str) -> Function:
    return Function("m", name, (), summary, words, 1, 2)


TASK = Task(
    (
        function("readLines", "Reading of a line.", "file"),
        function("close", "The file is closed.", "file", "descriptor"),
        function("x", "To be or not to be.", "lines"),
    ),
    (0, 1, 2),
)


def test_stemming_drops_stop_words() -> None:
    assert lexical.stems("The readers are readingLines") == ["reader", "read", "line"]
    assert lexical.raw_words("The readers") == ["the", "readers"]


@pytest.mark.parametrize("score", [lexical.bm25, lexical.tf_idf])
def test_search_by_stems_finds_other_forms(score: object) -> None:
    assert callable(score)
    scores = score(TASK)
    assert scores.shape == (3, 3)
    assert scores[0].argmax() == 0
    assert scores[1].argmax() == 1
    assert not scores[2].any()  # only stop words


def test_search_by_raw_words_does_not_find_other_forms() -> None:
    assert not lexical.bm25(TASK, lexical.raw_words, name_weight=1)[0, 0]


def test_bm25_matches_an_example_by_hand() -> None:
    scores = lexical.bm25(TASK)
    # "line": thrice in the first document (of 9 terms), once in the third (of 6: "x" thrice); the
    # second has 7.
    idf, mean = np.log(1 + (3 - 2 + 0.5) / (2 + 0.5)), (9 + 7 + 6) / 3
    third = idf * 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * 6 / mean))
    assert scores[0, 2] == pytest.approx(third, rel=1e-5)


def test_overlap_is_a_share_of_the_question() -> None:
    assert lexical.overlap(TASK).tolist() == [1.0, 1.0, 1.0]
    other = Task((function("close", "The opened file is closed twice.", "file"),), (0,))
    assert lexical.overlap(other).tolist() == [0.5]
