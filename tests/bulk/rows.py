"""Parquet files of made-up texts, some of which cannot be encoded; comparison of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
FILE_ROWS = 5000
BAD = {1: None, 2: "", 3: "x" * 400}  # by the last three digits of the id; the last is too long


def text_of(number: int, rng: np.random.Generator) -> str | None:
    """Return the text of a row."""
    if number % 1000 in BAD:
        return BAD[number % 1000]
    return " ".join(rng.choice(WORDS, rng.integers(1, 6)))


def write_rows(folder: Path, rows: int) -> Path:
    """Write files of rows `id` and `text`; the same for each call."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for first in range(0, rows, FILE_ROWS):
        ids = range(first, min(first + FILE_ROWS, rows))
        texts = pa.array([text_of(number, rng) for number in ids], pa.string())
        table = pa.table({"id": pa.array(ids, pa.int64()), "text": texts})
        pq.write_table(table, folder / f"{first:08}.parquet")
    return folder


class Vectors(NamedTuple):
    """Rows of an output folder, in the order of their ids.

    Attributes:
        ids: int64 [n].
        vectors: float32 [n, D]; zeros for rows that cannot be encoded.
        rejected: bool [n].
    """

    ids: np.ndarray
    vectors: np.ndarray
    rejected: np.ndarray


def read_vectors(folder: Path) -> Vectors:
    """Read an output folder."""
    table = ds.dataset(folder).to_table(columns=["id", "embedding", "error"]).sort_by("id")
    column = table["embedding"].combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    flat = column.fill_null([0.0] * column.type.list_size).flatten()
    return Vectors(
        table["id"].to_numpy(),
        flat.to_numpy(zero_copy_only=False).reshape(len(table), -1),
        table["error"].is_valid().to_numpy(),
    )


def compare(found: Vectors, expected: Vectors) -> dict[str, Any]:
    """Return the rows missing or repeated, and how far the vectors are apart."""
    _, first = np.unique(found.ids, return_index=True)
    ids, places, others = np.intersect1d(found.ids, expected.ids, return_indices=True)
    apart = np.abs(found.vectors[places] - expected.vectors[others])
    equal = (found.vectors[places] == expected.vectors[others]).all(axis=1)
    return {
        "rows": len(found.ids),
        "missing": len(expected.ids) - len(ids),
        "repeated": len(found.ids) - len(first),
        "rejected": int(found.rejected.sum()),
        "other reasons": int((found.rejected[places] != expected.rejected[others]).sum()),
        "largest difference": float(apart.max(initial=0.0)),
        "bit-equal share": float(equal.mean()),
    }
