"""A part of the standard library as the corpus, so that training takes seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from headlight_model.texts import corpus

# base64 validates; fractions and quopri test.
MODULES = ("base64", "fractions", "json", "quopri", "textwrap")


@contextlib.contextmanager
def small_library() -> Iterator[None]:
    """Make the corpus as if the standard library were MODULES."""
    some = [file for file in corpus.stdlib_files() if corpus.top_level(file[0]) in MODULES]
    caches = (corpus.files, corpus.sources)
    for cache in caches:
        cache.cache_clear()
    try:
        with patch.object(corpus, "stdlib_files", lambda: some):
            yield
    finally:
        for cache in caches:
            cache.cache_clear()
