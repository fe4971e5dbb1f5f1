"""Retrieval tasks: given a question, find the function among those of one part of the corpus."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from headlight_model.texts import corpus
from headlight_model.texts.corpus import STDLIB, Part
from headlight_model.texts.functions import Function, functions, parse
from headlight_model.train.data import packages

QUESTIONS = Path(__file__).with_name("questions.txt")


@dataclasses.dataclass(frozen=True)
class Task:
    """Candidates and the questions about them."""

    candidates: tuple[Function, ...]
    answers: tuple[int, ...]  # by question, the row of its right candidate
    # By question, all rows that are right; empty: only those of `answers`.
    also: tuple[frozenset[int], ...] = ()
    said: tuple[str, ...] = ()  # the questions; empty: the summaries of the `answers`

    @property
    def questions(self) -> list[str]:
        """The question for each of `answers`."""
        return list(self.said) or [self.candidates[row].summary for row in self.answers]

    @property
    def groups(self) -> list[str]:
        """The package of each question; in the standard library, the top-level module."""
        functions = [self.candidates[row] for row in self.answers]
        return [corpus.top_level(f.module) if f.package == STDLIB else f.package for f in functions]


def described_task(candidates: Iterable[Function]) -> Task:
    """Return the task of finding each described function by the first sentence of its docstring.

    A sentence that describes several functions is not asked.
    """
    described = tuple(function for function in candidates if function.summary)
    times = Counter(function.summary for function in described)
    return Task(described, tuple(row for row, f in enumerate(described) if times[f.summary] == 1))


def retrieval_task(part: Part) -> Task:
    """Return the task of one part of the standard library."""
    return described_task(f for f in functions() if corpus.part_of(f.module) is part)


def package_task(part: Part) -> Task:
    """Return the task of the packages of one part."""
    chosen = [source for source in packages.sources() if source.part is part]
    return described_task(function for source in chosen for function in parse(source))


def newcomer_task(file: Path = QUESTIONS) -> Task:
    """Return the task of the questions written by hand.

    All public functions of the standard library are candidates.
    """
    known: dict[str, Function] = {}
    for function in functions():
        if not function.name.rpartition(".")[2].startswith("_"):
            known.setdefault(f"{function.module}:{function.name}", function)
    row = {name: place for place, name in enumerate(known)}
    said, rows, also = [], [], []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            question, _, answers = line.partition(" | ")
            right = [row[answer.strip()] for answer in answers.split(",")]
            said.append(question)
            rows.append(right[0])
            also.append(frozenset(right))
    return Task(tuple(known.values()), tuple(rows), tuple(also), tuple(said))
