"""Arrow tables of texts, and the numbers of their new columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

TEXTS = [f"text number {number}, and more of it" for number in range(20)]
Options = dict[str, Any]


def table(texts: list[str | None], name: str = "text", kind: Any = None) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(len(texts)), pa.int64()), name: pa.array(texts, kind or pa.string())}
    )


def array(column: pa.ChunkedArray) -> np.ndarray:
    """Return the numbers of a column without nulls as rows."""
    whole = column.combine_chunks()
    assert whole.null_count == 0
    while pa.types.is_list(whole.type) or pa.types.is_fixed_size_list(whole.type):
        whole = whole.flatten()
    numbers: np.ndarray = whole.to_numpy(zero_copy_only=False)
    return numbers.reshape(len(column), -1) if len(column) else numbers
