"""Texts of four kinds, for a model that reads English prose best."""

from __future__ import annotations

import functools
from pathlib import Path

from headlight_export.precision.sample_texts import language_reference, spread
from headlight_model.texts import corpus
from headlight_model.texts.functions import functions_of

COUNT = 70  # of each kind
CODE_CHARACTERS = 300  # of a function
FOLDER = Path(__file__).parent / "texts"


@functools.cache
def texts() -> dict[str, list[str]]:
    """Return COUNT texts of each kind: prose, code, questions, and other languages than English."""
    return {
        "prose": language_reference(COUNT),
        "code": _code(),
        "questions": _lines("questions"),
        "other languages": _lines("foreign"),
    }


def _lines(name: str) -> list[str]:
    found = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert len(found) == len(set(found)) == COUNT, f"{len(found)} lines of {name}"
    return found


def _code() -> list[str]:
    """Return the first lines of functions of Python's own library."""
    found = [
        "\n".join(source.text.splitlines()[each.first_line - 1 : each.last_line])[:CODE_CHARACTERS]
        for source in corpus.files()
        if source.part is corpus.Part.TEST
        for each in functions_of(source)
    ]
    return spread(list(dict.fromkeys(found)), COUNT)
