"""Pairs of texts that belong together, which the retrieval objective learns from. Needs no torch.

A source holds pairs of several kinds: natural language on one side, the code that it is about on
the other.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator

from headlight_model.texts import corpus
from headlight_model.texts.corpus import Part, Source
from headlight_model.texts.functions import (
    document_text,
    parse,
    signature_text,
    split_words,
    unique_words,
)
from headlight_model.texts.sentences import sentences

Pair = tuple[str, str]
TextPairs = dict[str, list[Pair]]  # by task

# Share of the retrieval steps that learns from each.
TASKS = {
    "summary": 0.60,  # first sentence of a docstring -> its function
    "comment": 0.10,  # comment -> the code below it
    "sentence": 0.12,  # another sentence of a docstring -> its function
    "name": 0.12,  # name of a function -> its parameters and body
    "rest": 0.06,  # first sentence of a docstring or of a paragraph -> what follows
}
SENTENCES = 5  # of a docstring, beside the first
CODE_LINES = 8  # below a comment
# Words of code, or pairs of letters of prose: a shorter text is too vague as a question or answer.
LEAST = 3
BAD_SOURCE = (SyntaxError, ValueError, RecursionError)  # a template, or Python of another version

LETTER_PAIR = re.compile(r"[^\W\d_]{2}")


def pairs(sources: Iterable[Source], part: Part) -> TextPairs:
    """Return the distinct pairs of each task in one part of some sources, in their order.

    Training pairs hold no text that a summary pair of another part holds too.
    """
    by_part: dict[Part, dict[str, dict[Pair, None]]] = {
        each: {task: {} for task in TASKS} for each in Part
    }
    gc.disable()  # syntax trees are short-lived, and so many that collections take most of the time
    try:
        for source in sources:
            if part in (source.part, Part.TRAINING):
                prose = (
                    source.package == corpus.STDLIB
                    and corpus.top_level(source.module) == corpus.PROSE_MODULE
                )
                for task, pair in prose_pairs(source) if prose else code_pairs(source):
                    by_part[source.part][task][pair] = None
    finally:
        gc.enable()
    kept_back = {
        text for each in Part if each is not part for text in said(by_part[each]["summary"])
    }
    return {
        task: [pair for pair in by_part[part][task] if kept_back.isdisjoint(said([pair]))]
        for task in TASKS
    }


def said(chosen: Iterable[Pair]) -> Iterator[str]:
    """Yield both sides of each pair, in lower case for comparison."""
    return (text.lower() for pair in chosen for text in pair)


def code_pairs(source: Source) -> Iterator[tuple[str, Pair]]:
    """Yield (task, pair) of one file; nothing if this Python cannot parse it."""
    try:
        functions = parse(source)
    except BAD_SOURCE:
        return
    for function in functions:
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
    """Yield (task, pair) of one topic of the language reference."""
    for paragraph in re.split(r"\n\s*\n", source.text):
        said = [sentence for sentence in sentences(paragraph) if has_words(sentence)]
        if len(said) > 1:
            yield "rest", (said[0], " ".join(said[1:]))


def comment_pairs(source: Source) -> Iterator[Pair]:
    """Yield (comment, words of the code below it) of comments on lines of their own.

    Consecutive comment lines are joined.
    """
    lines = source.text.splitlines()
    comments = comment_lines(source)
    row = 0
    while row < len(lines):
        said: list[str] = []
        code: list[str] = []
        while row in comments:
            said.append(comments[row])
            row += 1
        while (
            row < len(lines)
            and row not in comments
            and lines[row].strip()
            and said
            and len(code) < CODE_LINES
        ):
            code.append(lines[row].partition("#")[0])
            row += 1
        comment, words = " ".join(said), unique_words(code)
        if has_words(comment) and len(words) >= LEAST:
            yield comment, " ".join(words)
        row += not said


def comment_lines(source: Source) -> dict[int, str]:
    """Return the text of each comment on a line of its own, by the 0-based number of the line.

    A line of a string that looks like one counts as one: they are few, and a tokenizer would take
    minutes.
    """
    stripped = (line.strip() for line in source.text.splitlines())
    return {row: line.strip("# ") for row, line in enumerate(stripped) if line.startswith("#")}


def has_words(text: str) -> bool:
    """Return whether a text has enough words."""
    return len(LETTER_PAIR.findall(text)) >= LEAST
