"""Column of texts in a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

NULL, EMPTY = "is null; give a text", "is empty; give at least one character"
NOT_UTF8 = "is not UTF-8; convert it"  # Arrow reads such bytes without a check
TYPES = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    pa.types.is_null,  # of a column without values
)


def holds_texts(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(check(kind) for check in TYPES)


def read_texts(column: Any) -> tuple[list[str], dict[int, str]]:
    """Return the texts of a column, and the reasons, by place, of rows without a text."""
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        values = [value_of(scalar) for scalar in column]
    reasons = {None: NULL, "": EMPTY, b"": NOT_UTF8}
    problems = {place: reasons[value] for place, value in enumerate(values) if not value}
    return [value or "" for value in values], problems


def value_of(scalar: Any) -> Any:
    """Return a value of a column; b"" for a text that is not UTF-8."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return b""
