"""Sections of long documents, each with a sentence of its own as the query that should find it.

The documents are the topics of `help()`: the language reference as every Python has it. A section
is some paragraphs in a row. Its first plain sentence is the query, and is in no text. Headings
are in neither.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pydoc_data.topics import topics
from typing import NamedTuple

from bench.evidence.planted import is_plain
from headlight.runtime.tokenization.sentences import sentence_spans

SECTION_WORDS = 80  # from which the next paragraph begins another section
FEWEST_WORDS = 20  # of a section that has a query
FEWEST_SECTIONS = 4  # of a document
HEADING = re.compile(r"\S[^\n]*\n([*=\-~])\1{2,}")
BETWEEN = "\n\n"  # paragraphs, and sections


class Section(NamedTuple):
    """A part of a document.

    Attributes:
        query: a sentence that was cut out of it; empty: none fits.
        text: the rest.
    """

    query: str
    text: str


class Document(NamedTuple):
    """A long text."""

    name: str
    sections: tuple[Section, ...]

    @property
    def text(self) -> str:
        """The sections in order."""
        return BETWEEN.join(section.text for section in self.sections)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The characters of each section."""
        spans, at = [], 0
        for section in self.sections:
            spans.append((at, at + len(section.text)))
            at = spans[-1][1] + len(BETWEEN)
        return spans


def documents() -> list[Document]:
    """Return the topics that have FEWEST_SECTIONS. A paragraph of several topics is in the longest.

    A query that several sections have is dropped.
    """
    seen, result = set[str](), []
    for name, text in sorted(topics.items(), key=lambda topic: (-len(topic[1]), topic[0])):
        paragraphs = [each.strip("\n") for each in re.split(r"\n\s*\n", text)]
        fresh = [each for each in paragraphs if " ".join(each.split()) not in seen]
        seen |= {" ".join(each.split()) for each in fresh}
        sections = [section(parts) for parts in grouped(fresh)]
        if len(sections) >= FEWEST_SECTIONS:
            result.append(Document(name, tuple(sections)))
    times = Counter(each.query for document in result for each in document.sections)
    return [
        document._replace(
            sections=tuple(
                each if times[each.query] == 1 else each._replace(query="")
                for each in document.sections
            )
        )
        for document in result
    ]


def grouped(paragraphs: Iterable[str]) -> list[list[str]]:
    """Return paragraphs by section, each on one line. A heading begins a section."""
    groups, words = list[list[str]](), SECTION_WORDS
    for paragraph in paragraphs:
        if HEADING.fullmatch(paragraph.strip()):
            words = SECTION_WORDS
            continue
        line = " ".join(paragraph.split())
        if not line:
            continue
        if words >= SECTION_WORDS:
            groups.append([])
            words = 0
        groups[-1].append(line)
        words += len(line.split())
    return groups


def section(paragraphs: list[str]) -> Section:
    """Return a section without its query."""
    for at, paragraph in enumerate(paragraphs):
        for span in sentence_spans(paragraph):
            sentence = paragraph[span.start : span.end]
            remainder = (paragraph[: span.start] + paragraph[span.end :].lstrip()).strip()
            left = [*paragraphs[:at], *([remainder] if remainder else []), *paragraphs[at + 1 :]]
            if is_plain(sentence) and len(" ".join(left).split()) >= FEWEST_WORDS:
                return Section(sentence, BETWEEN.join(left))
    return Section("", BETWEEN.join(paragraphs))


def digest(documents_: Iterable[Document]) -> str:
    """Return lower-case hex that identifies the documents and their queries."""
    sha256 = hashlib.sha256()
    for document in documents_:
        for each in document.sections:
            sha256.update(f"{document.name}\0{each.query}\0{each.text}\0".encode())
    return sha256.hexdigest()
