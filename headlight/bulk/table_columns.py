"""Arrow columns: texts that are read, and results: lists of vectors, of tokens and spans, maps.

The type of a column depends on the request and the model alone, never on the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason
from headlight.results import AttentionMaps, Scores, SparseVector, TokenVectors
from headlight.span_vectors import SpanVectors
from headlight.spec import VECTOR_BITS, AttentionSpec, EmptyTexts, VectorType

NULL, EMPTY = "is null; give a text", "is empty; give at least one character"
NOT_UTF8 = "is not UTF-8; convert it"  # Arrow reads such bytes without a check
STRINGS = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
BINARIES = pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view


def holds_texts(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds texts; one without values may have no type."""
    return bool(pa.types.is_null(kind) or plain_type(kind) == pa.large_string())


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that holds all values of a string or binary type; others as they are."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if any(check(value) for check in STRINGS):
        return pa.large_string()
    return pa.large_binary() if any(check(value) for check in BINARIES) else kind


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """Return a type for columns of these types in several files; None: there is none.

    String types have a common one, and so have binary types. Views become plain: Arrow cannot
    select among their values.
    """
    types = [kind for kind in dict.fromkeys(kinds) if not pa.types.is_null(kind)]
    if not types:
        return pa.null()
    if len(types) == 1 and "_view" not in str(types[0]):
        return types[0]
    plain = {plain_type(kind) for kind in types}
    return plain.pop() if len(plain) == 1 else None


def cast_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column with the values of another in a type that `common_type` has for it."""
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        # Arrow cannot look up values that are views.
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind)).cast(kind)
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, kind)
    return column.cast(kind)


def read_texts(
    column: Any, empty_texts: EmptyTexts | None = None
) -> tuple[list[str], dict[int, str]]:
    """Return the texts of a column, and the reasons, by place, of rows without a text.

    An empty text is one only with `empty_texts` "encode".
    """
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        values = [value_of(scalar) for scalar in column]
    reasons = {None: NULL, "": EMPTY, b"": NOT_UTF8}
    if empty_texts == "encode":
        del reasons[""]
    problems = {place: reasons[value] for place, value in enumerate(values) if value in reasons}
    return [value or "" for value in values], problems


def read_pairs(
    first: Any, second: Any, names: tuple[str, str], empty_texts: EmptyTexts | None = None
) -> tuple[list[tuple[str, str]], dict[int, str]]:
    """Return the pairs of two columns as `read_texts`; a reason begins with the column's name."""
    sides = read_texts(first, empty_texts), read_texts(second, empty_texts)
    problems = {
        place: f"{name}: {reason}"
        for name, (_, reasons) in reversed([*zip(names, sides, strict=True)])
        for place, reason in reasons.items()
    }
    return list(zip(sides[0][0], sides[1][0], strict=True)), problems


def value_of(scalar: Any) -> Any:
    """Return a value of a column; b"" for a text that is not UTF-8."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return b""


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


def no_vectors(model: ModelDescription, dtype: VectorType) -> NDArray[Any]:
    """Return [0, D] of the type of a model's multi-vectors; of bits [0, D / 8]."""
    bits = VECTOR_BITS[dtype] == 1
    kind = {"binary": "int8", "ubinary": "uint8"}.get(dtype, dtype)
    return np.zeros((0, model.multi_vector_dim // (8 if bits else 1)), kind)


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


def score_columns(
    results: Sequence[Scores], places: Sequence[int], rows: int, labels: Sequence[str]
) -> dict[str, pa.Array]:
    """Return the score of each row and its logit, null for other rows.

    Of several labels: those of the likeliest, its name as `label`, and the `scores` of all.
    """
    shape = len(results), len(labels)
    logits = np.array([each.logits for each in results], np.float32).reshape(shape)
    values = np.array([each.values for each in results], np.float32).reshape(shape)
    best = logits.argmax(axis=1)
    every = np.arange(len(results))
    columns = {
        "score": _numbers(values[every, best], places, rows),
        "logit": _numbers(logits[every, best], places, rows),
    }
    if len(labels) == 1:
        return columns
    names = np.full(rows, None, object)
    names[list(places)] = [labels[at] for at in best]
    return {
        "label": pa.array(names.tolist(), pa.string()),
        **columns,
        "scores": vector_column(values, places, rows),
    }


def sparse_columns(
    results: Sequence[SparseVector], places: Sequence[int], rows: int, *, pieces: bool
) -> dict[str, pa.Array]:
    """Return the terms of each row, their weights, and their spelling if `pieces`."""
    columns = {
        "sparse_indices": _ragged(
            [each.indices for each in results], places, rows, np.zeros(0, np.uint32)
        ),
        "sparse_values": _ragged(
            [each.values for each in results], places, rows, np.zeros(0, np.float32)
        ),
    }
    if pieces:
        spelled = [each.pieces for each in results]
        entries = pa.array([piece for each in spelled for piece in each], pa.string())
        columns["sparse_pieces"] = _lists(entries, spelled, places, rows)
    return columns


def _numbers(numbers: NDArray[np.float32], places: Sequence[int], rows: int) -> pa.Array:
    flat, missing = np.zeros(rows, np.float32), np.ones(rows, bool)
    flat[list(places)], missing[list(places)] = numbers, False
    return pa.array(flat, mask=missing)


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
    entries: pa.Array, arrays: Sequence[Sized], places: Sequence[int], rows: int
) -> pa.Array:
    """Return the entries as a list for each row: as many as the row's array has."""
    if len(entries) > MOST_ENTRIES:
        raise InvalidInput("batch", Reason.COLUMN_TOO_LONG, count=len(entries))
    counts, missing = np.zeros(rows, np.int64), np.ones(rows, bool)
    counts[list(places)] = [len(each) for each in arrays]
    missing[list(places)] = False
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries, mask=pa.array(missing))
