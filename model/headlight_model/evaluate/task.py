"""The retrieval task: given the first sentence of a docstring, find the function among those of one part of the corpus."""

from __future__ import annotations

import dataclasses
from collections import Counter

from headlight_model.train.data import corpus
from headlight_model.train.data.corpus import Part
from headlight_model.train.data.functions import Function, functions


@dataclasses.dataclass(frozen=True)
class Task:
    """The candidates and the questions about them."""

    candidates: tuple[Function, ...]  # all described functions of the part
    asked: tuple[int, ...]  # rows of the candidates whose sentence describes no other: they alone have one right answer

    @property
    def questions(self) -> list[str]:
        """One for each row that is asked for."""
        return [self.candidates[row].summary for row in self.asked]

    @property
    def modules(self) -> list[str]:
        """The top-level module of each question."""
        return [corpus.top_level(self.candidates[row].module) for row in self.asked]


def retrieval_task(part: Part) -> Task:
    """The task of one part of the corpus."""
    described = tuple(f for f in functions() if f.summary and corpus.part_of(f.module) is part)
    times = Counter(function.summary for function in described)
    return Task(described, tuple(row for row, f in enumerate(described) if times[f.summary] == 1))
