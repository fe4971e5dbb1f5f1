"""Texts of four kinds, for a model that reads English prose best."""

from __future__ import annotations

import functools

from headlight_export.precision.sample_texts import code, language_reference, lines

COUNT = 70  # of each kind


@functools.cache
def texts() -> dict[str, list[str]]:
    """Return COUNT texts of each kind: prose, code, questions, and other languages than English."""
    return {
        "prose": language_reference(COUNT),
        "code": code(COUNT),
        "questions": lines("questions"),
        "other languages": lines("other_languages"),
    }
