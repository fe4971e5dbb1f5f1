from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headlight_model.evaluate.ranking import ranks
from headlight_model.evaluate.task import QUESTIONS, described_task, newcomer_task
from headlight_model.texts.corpus import Source
from headlight_model.texts.functions import Function


def function(name: str, summary: str, package: str = "python") -> Function:
    return Function("shop.till", name, (), summary, (), 1, 2, package)


def test_questions_are_sentences_of_exactly_one_function() -> None:
    chosen = [
        function("a", "Same."),
        function("b", "Own."),
        function("c", ""),
        function("d", "Same.", "click"),
    ]
    task = described_task(chosen)
    assert [candidate.name for candidate in task.candidates] == ["a", "b", "d"]
    assert task.answers == (1,)
    assert task.questions == ["Own."]
    assert task.groups == ["shop"]
    assert described_task(chosen[3:]).groups == ["click"]


@pytest.mark.usefixtures("small_library")
def test_handwritten_questions_accept_each_of_their_answers(tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text(
        "# a comment\nremove indentation | textwrap:dedent, textwrap:indent\n", encoding="utf-8"
    )
    task = newcomer_task(file)
    assert task.questions == ["remove indentation"]
    (right,) = task.also
    assert {task.candidates[row].name for row in right} == {"dedent", "indent"}
    scores = np.zeros((1, len(task.candidates)))
    scores[0, list(right)] = 2, 1
    assert ranks(scores, task.answers, task.also).tolist() == [1]
    assert not any(
        candidate.name.rpartition(".")[2].startswith("_") for candidate in task.candidates
    )


def test_all_hundred_handwritten_questions_have_answers() -> None:
    task = newcomer_task()
    assert len(task.answers) == len(set(task.questions)) == 100
    assert len(task.candidates) > 5000
    assert QUESTIONS.name == "questions.txt"


def test_no_handwritten_question_is_a_sentence_of_the_library() -> None:
    task = newcomer_task()
    said = {candidate.summary.lower().strip(".") for candidate in task.candidates}
    assert said.isdisjoint(question.lower() for question in task.questions)


def test_the_best_of_several_right_answers_counts() -> None:
    scores = np.array([[3.0, 2.0, 2.0, 1.0]])
    assert ranks(scores, [3], [[3]]).tolist() == [4]
    assert ranks(scores, [3], [[1, 3]]).tolist() == [3]  # the equal one comes before
    assert ranks(scores, [3], [[0, 3]]).tolist() == [1]


def test_a_source_belongs_to_a_part_of_the_split() -> None:
    assert Source("re", "").part.value == "test"
    assert Source("re", "", "torch").part.value == "training"
