"""Lexical search baselines: BM25 and TF-IDF over words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import bm25s
import numpy as np
import snowballstemmer
from bm25s.stopwords import STOPWORDS_EN

from headlight_model.evaluate.ranking import Floats
from headlight_model.evaluate.task import Task
from headlight_model.texts.functions import NAME_WEIGHT, document_text, split_words

STOP_WORDS = frozenset(STOPWORDS_EN)
NOTHING = "\0"  # placeholder in a text without words, which the index rejects

_stemmer = snowballstemmer.stemmer("english")


def raw_words(text: str) -> list[str]:
    """Return the lower-case words of a text."""
    return split_words(text)


def stems(text: str) -> list[str]:
    """Return the stems of a text's words, without stop words."""
    return [_stemmer.stemWord(word) for word in split_words(text) if word not in STOP_WORDS]


def bm25(
    task: Task, terms: Callable[[str], list[str]] = stems, name_weight: int = NAME_WEIGHT
) -> Floats:
    """Return BM25 scores [Q, C] as Lucene computes them, k1 1.5, b 0.75.

    Args:
        task: questions and candidates.
        terms: how a text becomes terms.
        name_weight: how often a document repeats the function's name.
    """
    documents = [
        terms(document_text(function, name_weight)) or [NOTHING] for function in task.candidates
    ]
    index = bm25s.BM25(method="lucene")
    index.index(documents, show_progress=False)
    known = {term for document in documents for term in document}
    questions = [[term for term in terms(question) if term in known] for question in task.questions]
    none = np.zeros(len(documents))
    return np.stack(
        [
            index.get_scores(question).astype(np.float64) if question else none
            for question in questions
        ]
    )


def tf_idf(task: Task) -> Floats:
    """Return cosines [Q, C] of stem vectors weighted (1 + ln tf) ln(N / df).

    After Manning et al. 2008, 6.4.
    """
    documents = [stems(document_text(function)) for function in task.candidates]
    number = {
        term: column
        for column, term in enumerate(dict.fromkeys(term for text in documents for term in text))
    }
    with_term = np.bincount(
        [number[term] for text in documents for term in set(text)], minlength=len(number)
    )
    rarity = np.log(len(documents) / with_term)

    def vectors(texts: Sequence[list[str]]) -> Floats:
        weights = np.zeros((len(texts), len(number)))
        for row, text in enumerate(texts):
            for term, count in Counter(term for term in text if term in number).items():
                weights[row, number[term]] = (1 + np.log(count)) * rarity[number[term]]
        length = np.linalg.norm(weights, axis=1, keepdims=True)
        return weights / np.where(length > 0, length, 1.0)

    scores: Floats = (
        vectors([stems(question) for question in task.questions]) @ vectors(documents).T
    )
    return scores


def overlap(task: Task) -> Floats:
    """Return the share of each question's stems that its right answer holds: [Q], 0 to 1.

    It is 1 for a question that holds only stop words.
    """
    shares = []
    for row, question in zip(task.answers, task.questions, strict=True):
        words, held = set(stems(question)), set(stems(document_text(task.candidates[row])))
        shares.append(len(words & held) / len(words) if words else 1.0)
    return np.array(shares)
