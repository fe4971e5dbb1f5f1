"""A sample of a task's questions keeps what belongs to each."""

from __future__ import annotations

import dataclasses

import pytest

from headlight_model.evaluate.reranking import sample
from headlight_model.evaluate.task import retrieval_task
from headlight_model.texts.corpus import Part


@pytest.mark.usefixtures("small_library")
def test_a_sample_has_the_answers_and_words_of_its_questions() -> None:
    task = retrieval_task(Part.TEST)
    also = tuple(frozenset({row}) for row in task.answers)
    task = dataclasses.replace(task, also=also, said=tuple(task.questions))
    few, rows = sample(task, 5)
    assert len(set(rows)) == 5
    assert few.answers == tuple(task.answers[row] for row in rows)
    assert few.also == tuple(also[row] for row in rows)
    assert few.questions == [task.questions[row] for row in rows]
