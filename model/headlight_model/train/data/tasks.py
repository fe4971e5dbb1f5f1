"""Pairs of texts that belong together, which the retrieval objective learns from. Needs no torch.

Some five thousand documented functions are few. The same source holds more pairs of one kind: words of people on one side,
the code that they are about on the other.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from headlight_model.train.data import corpus
from headlight_model.train.data.corpus import Part, Source
from headlight_model.train.data.functions import document_text, functions_of, signature_text, split_words, unique_words
from headlight_model.train.data.sentences import sentences

Pair = tuple[str, str]

# How large a share of the retrieval steps learns from each.
TASKS = {
    "summary": 0.40,  # first sentence of a docstring -> its function
    "comment": 0.20,  # comment -> the code below it
    "sentence": 0.15,  # another sentence of a docstring -> its function
    "name": 0.15,  # name of a function -> its parameters and body
    "rest": 0.10,  # first sentence of a docstring or of a paragraph -> what follows
}
SENTENCES = 5  # of a docstring, beside the first
CODE_LINES = 8  # below a comment
LEAST = 3  # words of code, or pairs of letters of prose: what has fewer is too vague to be a question or an answer

LETTER_PAIR = re.compile(r"[^\W\d_]{2}")


def pairs(part: Part) -> dict[str, list[Pair]]:
    """The pairs of each task, in the order of the corpus."""
    found: dict[str, list[Pair]] = {task: [] for task in TASKS}
    for source in corpus.sources():
        if corpus.part_of(source.module) is part:
            from_source = prose_pairs if corpus.top_level(source.module) == corpus.PROSE_MODULE else code_pairs
            for task, pair in from_source(source):
                found[task].append(pair)
    return found


def code_pairs(source: Source) -> Iterator[tuple[str, Pair]]:
    """(task, pair) of one file."""
    for function in functions_of(source):
        document = document_text(function)
        if function.summary:
            yield "summary", (function.summary, document)
        said = [sentence for sentence in sentences(function.docstring) if has_words(sentence)]
        for sentence in said[1 : SENTENCES + 1]:
            yield "sentence", (sentence, document)
        if len(said) > 1:
            yield "rest", (said[0], " ".join(said[1:]))
        if len(function.body_words) >= LEAST:
            yield "name", (" ".join(split_words(function.name)), signature_text(function))
    for pair in comment_pairs(source):
        yield "comment", pair


def prose_pairs(source: Source) -> Iterator[tuple[str, Pair]]:
    """(task, pair) of one topic of the language reference."""
    for paragraph in re.split(r"\n\s*\n", source.text):
        said = [sentence for sentence in sentences(paragraph) if has_words(sentence)]
        if len(said) > 1:
            yield "rest", (said[0], " ".join(said[1:]))


def comment_pairs(source: Source) -> Iterator[Pair]:
    """(comment, words of the lines below it): of comments that have lines to themselves, joined where they follow."""
    lines = source.text.splitlines()
    comments = comment_lines(source)
    row = 0
    while row < len(lines):
        said: list[str] = []
        code: list[str] = []
        while row in comments:
            said.append(comments[row])
            row += 1
        while row < len(lines) and row not in comments and lines[row].strip() and said and len(code) < CODE_LINES:
            code.append(lines[row].partition("#")[0])
            row += 1
        comment, words = " ".join(said), unique_words(code)
        if has_words(comment) and len(words) >= LEAST:
            yield comment, " ".join(words)
        row += not said


def comment_lines(source: Source) -> dict[int, str]:
    """Text of each comment that has a line to itself, by the 0-based number of the line."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            found[token.start[0] - 1] = token.string.strip("# ")
    return found


def has_words(text: str) -> bool:
    """Whether a text says anything in words."""
    return len(LETTER_PAIR.findall(text)) >= LEAST
