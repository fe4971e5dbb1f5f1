"""Tables for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Run = Callable[..., tuple[int, str]]  # the command with options: exit code, errors
WORDS = ("join", "two", "paths", "parse", "a", "date", "open", "file")
LONG = "word " * 400  # longer than any model of the tests takes


def texts(count: int) -> list[str]:
    """Return texts of different lengths, no two alike."""
    return [f"{' '.join(WORDS[: 1 + at % len(WORDS)])} {at}" for at in range(count)]


def write(
    path: Path, bodies: Sequence[str | None], first: int = 0, group: int = 10, **columns: object
) -> Path:
    """Write a table with the columns id, body and lang, or others instead."""
    ids = list(range(first, first + len(bodies)))
    found = {"id": ids, "body": list(bodies), "lang": [f"l{at % 3}" for at in ids], **columns}
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table(found), path, row_group_size=group)
    return path
