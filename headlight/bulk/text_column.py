"""Columns of texts in a table, in any of Arrow's string types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from headlight.spec import EmptyTexts

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


def value_of(scalar: Any) -> Any:
    """Return a value of a column; b"" for a text that is not UTF-8."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return b""
