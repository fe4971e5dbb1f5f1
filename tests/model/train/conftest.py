"""A library of a few modules and a model of a few neurons, so that everything here takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from model.train import corpus
from model.train.data import Data, Pairs
from model.train.recipe import QUICK
from model.train.tokenizer import CLS_ID, SEP_ID, SPECIALS

SMALL = ("fractions", "json", "quopri", "textwrap")  # fractions and quopri are held out


@pytest.fixture
def small_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The corpus, as if the standard library were SMALL."""
    whole = corpus.stdlib_files()
    caches = (corpus.files, corpus.sources)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(corpus, "stdlib_files", lambda: [file for file in whole if corpus.top_level(file[0]) in SMALL])
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def counting_data() -> Data:
    """Ids that count upwards and wrap round: whoever knows the neighbours knows the hidden one."""
    ids = np.arange(4000) % 20 + len(SPECIALS)
    queries = [[CLS_ID, 10 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    documents = [[CLS_ID, 40 + index, 41 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    return Data(ids.astype(np.int64), Pairs(queries, documents))
