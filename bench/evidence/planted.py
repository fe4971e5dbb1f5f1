"""Planted-evidence tasks: passages in which one known sentence belongs to the query.

The texts are functions that training held out: of the test packages, and of the test modules of
the standard library. Distractors are sentences of the same kind, of the same package.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import snowballstemmer

from headlight.runtime.tokenization.sentences import sentence_spans
from headlight_model.texts import corpus
from headlight_model.texts.corpus import TEST_PACKAGES, Part
from headlight_model.texts.functions import Function, document_text, parse, split_words
from headlight_model.texts.sentences import first_sentence, sentences
from headlight_model.train.data import packages

SEED = 29
CASES = 60  # of each task and group
SMALLEST, LARGEST = 6, 10  # sentences of a passage
LONG_WORD = 5  # letters; shorter words are often function words
FEWEST_WORDS, MOST_WORDS = 6, 30  # of a query or a sentence
PACKAGE_SHARE = 0.2  # of a group's cases; else networkx would be more than a third
FEWEST_SENTENCES = 2 * LARGEST  # of a package, to draw distractors from
PLAIN = re.compile(r"[A-Z](?!.*(>>>|\.\. |--|::| : |:param|\s\.)).*[\w`)]\.")
SHARED, DISJOINT = "common words", "no common words"
MOST_CODE_WORDS = 48  # of a query
PROSE, CODE = "next sentence", "code and description"
TASKS = {
    PROSE: "Query: the first sentence of a docstring. Answer: its second sentence.",
    CODE: "Query: the name of a function, its parameters and words of its body, as the model was "
    "trained. Answer: the first sentence of its docstring.",
}

_stem = functools.cache(snowballstemmer.stemmer("english").stemWord)


class Sentence(NamedTuple):
    """A sentence of a docstring that can be planted, and its query."""

    package: str
    function: str
    query: str
    text: str

    @property
    def overlap(self) -> str:
        """SHARED or DISJOINT."""
        return SHARED if long_stems(self.query) & long_stems(self.text) else DISJOINT


class Case(NamedTuple):
    """A query and a passage.

    Attributes:
        task: the name of the task.
        package: the package of all its sentences.
        group: whether query and answer share a long word.
        query: the text.
        sentences: of the passage, in order.
        answer: index of the planted sentence.
    """

    task: str
    package: str
    group: str
    query: str
    sentences: tuple[str, ...]
    answer: int

    @property
    def passage(self) -> str:
        """The text of the passage."""
        return " ".join(self.sentences)


def long_stems(text: str) -> set[str]:
    """Return the stems of words of LONG_WORD letters or more, and the words' first letters.

    The first letters join "descriptor" and "description", which the stemmer does not.
    """
    words = {word for word in split_words(text) if len(word) >= LONG_WORD}
    return {_stem(word) for word in words} | {f"{word[:LONG_WORD]}-" for word in words}


def held_out_functions() -> list[Function]:
    """Return the functions of the packages and library modules that training held out."""
    sources = [source for source in corpus.files() if source.part is Part.TEST]
    for name in sorted(TEST_PACKAGES):
        if (package := packages.package(name)) is not None:
            sources += packages.read(package)
    return [function for source in sources for function in parse(source)]


def candidates(task: str, functions: Iterable[Function]) -> list[Sentence]:
    """Return the sentences that can be planted. Each text and each query is there once."""
    kept = []
    for function in functions:
        first = first_sentence(function.docstring)
        if not is_plain(first):
            continue
        if task == CODE:
            words = document_text(function, module=False).split()
            query, text = " ".join(words[:MOST_CODE_WORDS]), first
        else:
            query, text = first, "".join(sentences(function.docstring)[1:2])
        if task == CODE or is_plain(text):
            name = f"{function.module}.{function.name}"
            kept.append(Sentence(function.package, name, query, text))
    queries = Counter(each.query for each in kept)
    texts = Counter(each.text for each in kept)
    return [each for each in kept if queries[each.query] == 1 == texts[each.text]]


def is_plain(text: str) -> bool:
    """Whether this is one sentence of words, by the rules of the corpus and of the service."""
    in_length = FEWEST_WORDS <= len(text.split()) <= MOST_WORDS
    return in_length and bool(PLAIN.fullmatch(text)) and len(sentence_spans(text)) == 1


@functools.cache
def all_cases(cases: int = CASES) -> tuple[Case, ...]:
    """Return as many cases of each task and group."""
    functions = held_out_functions()
    return tuple(
        case for task in TASKS for case in planted_cases(task, candidates(task, functions), cases)
    )


def first_cases(cases: Iterable[Case], count: int) -> list[Case]:
    """Return the first cases of each task and group."""
    used = Counter[tuple[str, str]]()
    kept = []
    for case in cases:
        used[case.task, case.group] += 1
        if used[case.task, case.group] <= count:
            kept.append(case)
    return kept


def planted_cases(task: str, sentences_: Sequence[Sentence], cases: int) -> list[Case]:
    """Return as many cases of each group, one group after the other.

    Raises:
        ValueError: the corpus has too few sentences.
    """
    draw = random.Random(SEED)
    by_package = defaultdict[str, list[Sentence]](list)
    for each in sentences_:
        by_package[each.package].append(each)
    used, kept = Counter[tuple[str, str]](), list[Case]()
    most = max(1, PACKAGE_SHARE * cases)
    for each in draw.sample(sentences_, len(sentences_)):
        others = by_package[each.package]
        group = each.overlap
        full = sum(count for (each_group, _), count in used.items() if each_group == group) >= cases
        if full or len(others) < FEWEST_SENTENCES or used[group, each.package] >= most:
            continue
        case = _case(task, each, others, draw)
        if len(sentence_spans(case.passage)) == len(case.sentences):
            used[group, each.package] += 1
            kept.append(case)
    if len(kept) < 2 * cases:
        raise ValueError(f"{task}: the corpus gives {len(kept)} cases, fewer than {2 * cases}")
    return sorted(kept, key=lambda case: case.group)


def _case(task: str, planted: Sentence, others: Sequence[Sentence], draw: random.Random) -> Case:
    count = draw.randint(SMALLEST, LARGEST)
    distractors = [each.text for each in others if each.function != planted.function]
    texts = draw.sample(distractors, count - 1)
    answer = draw.randrange(count)
    texts.insert(answer, planted.text)
    return Case(task, planted.package, planted.overlap, planted.query, tuple(texts), answer)


def digest(cases: Iterable[Case]) -> str:
    """Return lower-case hex that identifies the cases."""
    sha256 = hashlib.sha256()
    for case in cases:
        sha256.update(f"{case.query}\0{case.passage}\0{case.answer}\0".encode())
    return sha256.hexdigest()
