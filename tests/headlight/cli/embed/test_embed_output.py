"""Output of `headlight embed` for vectors with infinite or missing numbers."""

from __future__ import annotations

import io
import json

import numpy as np

from headlight.cli.embed.embed_output import as_json
from headlight.cli.embed.job_checkpoint import Rows
from headlight.results import Embeddings, ModelRef

MODEL = ModelRef("fake", "1", "ab" * 32, "cpu", "fp32")


def test_numbers_beyond_float16_are_null_in_json() -> None:
    """JSON has no infinity: readers other than Python's would reject the whole file."""
    vectors, counts = np.array([[1.5, np.inf, -np.inf, np.nan]], np.float16), np.array([3])
    found = Embeddings({"float16": vectors}, counts, counts, counts, MODEL)
    rows = Rows(io.BytesIO(), found)
    rows.append(["a"], found, {})
    told = json.loads(
        "".join(as_json(rows, MODEL, ids=None, skips=False)), parse_constant=lambda name: 1 / 0
    )
    assert told["embeddings"] == [[1.5, None, None, None]]
