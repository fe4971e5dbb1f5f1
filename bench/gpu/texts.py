"""Real text: docstrings of Python's library, of modules that no shipped model was trained on."""

from __future__ import annotations

import functools
from pathlib import Path

from bench.serving.workloads import SPARE
from headlight.runtime import Tokenizer
from headlight.runtime.values import Ids
from headlight_export.precision.sample_texts import LONGEST, docstrings


@functools.cache
def _all() -> tuple[str, ...]:
    """Return all docstrings. Reading the library takes seconds, so it is read once."""
    return tuple(docstrings(SPARE))


def texts(count: int) -> list[str]:
    """Return up to so many texts, evenly spread."""
    return list(_all()[:: max(1, len(_all()) // count)][:count])


def read(tokenizer: Path, most: int, count: int) -> list[Ids]:
    """Return those texts as ids, int64 [n], each once, cut at `most` and LONGEST tokens."""
    reader = Tokenizer(tokenizer, min(most, LONGEST))
    all_ids = (
        reader.encode(text, truncation="cut_end", with_info=False).ids for text in texts(count)
    )
    return list({ids.tobytes(): ids for ids in all_ids}.values())
