"""Arrow columns of results: fixed-size lists of vectors, lists of token and span vectors, maps.

The type of a column depends on the request and the model alone, never on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from headlight.errors import InvalidInput, Reason
from headlight.results import AttentionMaps, TokenVectors
from headlight.span_vectors import SpanVectors
from headlight.spec import AttentionSpec

MOST_ENTRIES = 2**31 - 1  # of all lists of a column: Arrow's offsets are int32


def vector_column(vectors: NDArray[Any], places: Sequence[int], rows: int) -> pa.Array:
    """Return one vector for each row: a fixed-size list of its type, null for other rows.

    Args:
        vectors: [n, D], float32, float16, int8 or uint8.
        places: the row of each vector, ascending.
        rows: number of rows.
    """
    if len(places) == rows:
        flat, missing = vectors, None
    else:
        flat = np.zeros((rows, vectors.shape[1]), vectors.dtype)
        flat[list(places)] = vectors
        mask = np.ones(rows, bool)
        mask[list(places)] = False
        missing = pa.array(mask)
    numbers = pa.array(np.ascontiguousarray(flat).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1], mask=missing)


def rows_column(
    arrays: Sequence[NDArray[Any]], places: Sequence[int], rows: int, empty: NDArray[Any]
) -> pa.Array:
    """Return several vectors for each row: a list of fixed-size lists, null for other rows.

    Args:
        arrays: [n, D] for each place; n may differ.
        places: the row of each array, ascending.
        rows: number of rows.
        empty: [0, D] of the type of the vectors.
    """
    flat = np.concatenate([empty, *arrays])
    return _lists(vector_column(flat, range(len(flat)), len(flat)), arrays, places, rows)


def token_column(
    results: Sequence[TokenVectors], places: Sequence[int], rows: int, empty: NDArray[Any]
) -> pa.Array:
    """Return the token vectors of each row, see `rows_column`."""
    return rows_column([each.vectors for each in results], places, rows, empty)


def span_columns(
    results: Sequence[SpanVectors], places: Sequence[int], rows: int, empty: NDArray[Any]
) -> dict[str, pa.Array]:
    """Return the span vectors of each row, and the characters [start, end) of each span."""
    characters = [
        np.array([(span.start, span.end) for span in each.characters], np.int32).reshape(-1, 2)
        for each in results
    ]
    return {
        "span_embeddings": rows_column([each.vectors for each in results], places, rows, empty),
        "span_characters": rows_column(characters, places, rows, np.zeros((0, 2), np.int32)),
    }


def attention_columns(
    results: Sequence[AttentionMaps], places: Sequence[int], rows: int, spec: AttentionSpec
) -> dict[str, pa.Array]:
    """Return the attention of each row: its numbers in C order, and its shape.

    Shapes differ from text to text, so a row is a list of numbers. `attention_indices` has the
    position of each of the largest numbers, `attention_scales` the factor of each row of uint8.
    """
    every: dict[str, tuple[DTypeLike, list[Any]]] = {
        "attention": (spec.dtype, [each.values for each in results]),
        "attention_shape": (np.int32, [np.array(each.values.shape, np.int32) for each in results]),
    }
    if spec.top_k is not None:
        every["attention_indices"] = np.uint16, [each.indices for each in results]
    if spec.dtype == "uint8":
        every["attention_scales"] = np.float32, [each.scales for each in results]
    return {
        name: _ragged(arrays, places, rows, np.zeros(0, dtype))
        for name, (dtype, arrays) in every.items()
    }


def _ragged(
    arrays: Sequence[NDArray[Any]], places: Sequence[int], rows: int, empty: NDArray[Any]
) -> pa.Array:
    """Return a list of numbers for each row, null for other rows."""
    flat = [each.reshape(-1) for each in arrays]
    return _lists(pa.array(np.concatenate([empty, *flat])), flat, places, rows)


def _lists(
    entries: pa.Array, arrays: Sequence[NDArray[Any]], places: Sequence[int], rows: int
) -> pa.Array:
    """Return the entries as a list for each row: as many as the row's array has."""
    if len(entries) > MOST_ENTRIES:
        raise InvalidInput("batch", Reason.COLUMN_TOO_LONG, count=len(entries))
    counts, missing = np.zeros(rows, np.int64), np.ones(rows, bool)
    counts[list(places)] = [len(each) for each in arrays]
    missing[list(places)] = False
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries, mask=pa.array(missing))
