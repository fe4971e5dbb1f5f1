"""Real text: docstrings of Python's own library, from modules that no shipped model was trained on."""

from __future__ import annotations

import functools
from pathlib import Path

from bench.serving.texts import SPARE
from headlight.runtime import Tokenizer
from headlight.runtime.values import Ids
from headlight_export.precision.sample_texts import LONGEST, docstrings


@functools.cache
def _all() -> tuple[str, ...]:
    """Reading the library takes seconds, so it is read once."""
    return tuple(docstrings(SPARE))


def texts(count: int) -> list[str]:
    """Up to so many, evenly spread."""
    return list(_all()[:: max(1, len(_all()) // count)][:count])


def read(tokenizer: Path, most: int, count: int) -> list[Ids]:
    """Those texts as ids, int64 [n] each, no two the same; cut at `most` tokens and at what precision is judged by elsewhere."""
    reader = Tokenizer(tokenizer, min(most, LONGEST))
    found = (reader.encode(text, truncation="cut_end", with_info=False).ids for text in texts(count))
    return list({ids.tobytes(): ids for ids in found}.values())
