"""Folders of sentence-transformers, served, against that library itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from numpy.typing import NDArray

from export.origin import read_origin
from export.writer import export_origin
from headlight import Client
from tests.families.sentences import DIM, POOLING, WIDTH, write_sentences
from tests.system.processes import Service

transformers.logging.set_verbosity_error()

TEXTS = ["a", "what is this?", "One of the LONGER texts of them all.", "short one", "x" * 80]  # the last is cut
FORMS: dict[str, dict[str, Any]] = {pooling: {"pooling": pooling} for pooling in POOLING}
FORMS |= {
    "normalized": {"normalize": True},
    "dense": {"dense": True, "pooling": "cls"},
    "dense, normalized": {"dense": True, "normalize": True},
}


def served(folder: Path) -> Service:
    """A service of the folder that sentence-transformers wrote."""
    export_origin(read_origin(folder / "model"), folder / "bundle")
    return Service(folder / "bundle")


def check(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Cosine, and the largest difference over the vector's length, as the project promises."""
    lengths = np.linalg.norm(expected, axis=1)
    cosine = (got * expected).sum(axis=1) / np.linalg.norm(got, axis=1) / lengths
    assert cosine.min() >= 0.999999
    assert (np.abs(got - expected).max(axis=1) / lengths).max() <= 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_vectors_are_those_of_the_library(form: str, tmp_path: Path) -> None:
    theirs = write_sentences(tmp_path, **FORMS[form])
    expected = theirs.encode(TEXTS)
    with served(tmp_path) as service, Client(service.target) as client:
        got = client.encode(TEXTS, truncate="end")
    assert got.shape == (len(TEXTS), WIDTH if "dense" in form else DIM)
    check(got, expected)
