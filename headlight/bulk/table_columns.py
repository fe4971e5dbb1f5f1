"""Arrow columns of results: fixed-size lists of vectors, lists of token and span vectors, maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headlight.results import AttentionMaps, TokenVectors
from headlight.span_vectors import SpanVectors


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


def rows_column(found: Iterable[tuple[int, NDArray[Any]]], rows: int, width: int) -> pa.Array:
    """Return several vectors for each row: a list of fixed-size lists, null for other rows.

    Args:
        found: the row and its vectors [n, D], ascending; n may differ.
        rows: number of rows.
        width: D, for a table without vectors.
    """
    arrays: list[NDArray[Any] | None] = [None] * rows
    for place, vectors in found:
        arrays[place] = vectors
    counts = [0 if each is None else len(each) for each in arrays]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    whole = [each for each in arrays if each is not None]
    flat = np.concatenate(whole) if whole else np.zeros((0, width), np.float32)
    missing = pa.array([each is None for each in arrays])
    return pa.ListArray.from_arrays(
        pa.array(offsets), vector_column(flat, range(len(flat)), len(flat)), mask=missing
    )


def token_column(found: Sequence[TokenVectors], places: Sequence[int], rows: int) -> pa.Array:
    """Return the token vectors of each row, see `rows_column`."""
    width = found[0].vectors.shape[1] if found else 1
    return rows_column(
        ((place, each.vectors) for place, each in zip(places, found, strict=True)), rows, width
    )


def span_columns(
    found: Sequence[SpanVectors], places: Sequence[int], rows: int
) -> dict[str, pa.Array]:
    """Return the span vectors of each row, and the characters [start, end) of each span."""
    width = found[0].vectors.shape[1] if found else 1
    pairs = list(zip(places, found, strict=True))
    characters = (
        (place, np.array([[span.start, span.end] for span in each.characters], np.int32))
        for place, each in pairs
    )
    return {
        "span_embeddings": rows_column(((at, each.vectors) for at, each in pairs), rows, width),
        "span_characters": rows_column(
            ((at, array.reshape(-1, 2)) for at, array in characters), rows, 2
        ),
    }


def attention_columns(
    found: Sequence[AttentionMaps], places: Sequence[int], rows: int
) -> dict[str, pa.Array]:
    """Return the attention of each row: its numbers in C order, and its shape.

    Shapes differ from text to text, so a row is a list of numbers, and `attention_shape` a list of
    int32. `attention_indices` has the chosen positions, if only the largest are asked for.
    """
    columns = {
        "attention": _ragged([each.values for each in found], places, rows),
        "attention_shape": _ragged(
            [np.array(each.values.shape, np.int32) for each in found], places, rows
        ),
    }
    if found and found[0].indices is not None:
        columns["attention_indices"] = _ragged(
            [each.indices for each in found if each.indices is not None], places, rows
        )
    return columns


def _ragged(arrays: Sequence[NDArray[Any]], places: Sequence[int], rows: int) -> pa.Array:
    values: list[NDArray[Any] | None] = [None] * rows
    for place, array in zip(places, arrays, strict=True):
        values[place] = array.reshape(-1)
    kind = pa.from_numpy_dtype(arrays[0].dtype) if arrays else pa.float32()
    return pa.array(values, pa.list_(kind))
