"""Sentences of a docstring. The first is the query that should find the function."""

from __future__ import annotations

import re

# A full stop ends a sentence where a new one begins, so that "e.g. this" and "3.11" do not.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(>])")
# Old docstrings begin with the call signature.
SIGNATURE = re.compile(r"[\w.]+\(.*\)\s*(->.*)?(: .*)?")


def first_sentence(docstring: str) -> str:
    """Return the first sentence on one line, without a leading signature.

    Empty if the docstring holds no words.

    Args:
        docstring: with the indentation already removed, as `ast.get_docstring` does.
    """
    for paragraph in re.split(r"\n\s*\n", docstring.strip()):
        lines = paragraph.split("\n")
        if SIGNATURE.fullmatch(lines[0].strip()):
            lines = lines[1:]
        text = " ".join(" ".join(lines).split())
        if text:
            sentence = SENTENCE_END.split(text, maxsplit=1)[0]
            return sentence if re.search(r"[^\W\d_]{2}", sentence) else ""
    return ""


def sentences(text: str) -> list[str]:
    """Return all sentences, each on one line, in order. A paragraph also ends a sentence."""
    paragraphs = re.split(r"\n\s*\n", text)
    parts = [
        " ".join(part.split()) for paragraph in paragraphs for part in SENTENCE_END.split(paragraph)
    ]
    return [sentence for sentence in parts if sentence]
