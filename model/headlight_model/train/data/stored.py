"""Tokenised data, compact in memory and in a file.

A later stage need not read the corpus again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from headlight_model.train.data.tokenizer import PAD_ID

STREAM, NAME_MARKS = "stream", "name_marks"  # names of arrays in the file
Ids = NDArray[np.uint16]  # vocabularies have at most 65,536 pieces


class Rows(Sequence[list[int]]):
    """Token ids of many texts, concatenated in one array."""

    def __init__(self, ids: Ids, ends: NDArray[np.int64]) -> None:
        self.ids, self.ends = ids, ends

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Rows:
        """Pack some rows."""
        packed = [np.array(row, dtype=np.uint16) for row in rows]
        ids = np.concatenate([np.zeros(0, dtype=np.uint16), *packed])
        return cls(ids, np.cumsum([len(row) for row in packed], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        row: list[int] = self.ids[self.ends[index - 1] if index else 0 : self.ends[index]].tolist()
        return row


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Tokenised questions and their answers. Row i of one belongs to row i of the other."""

    queries: Sequence[list[int]]
    documents: Sequence[list[int]]


@dataclasses.dataclass(frozen=True)
class Data:
    """One part of the corpus.

    Source as one stream of ids, [SEP] after each text, and pairs by task.
    """

    stream: NDArray[np.integer]
    pairs: dict[str, Pairs]  # by the names in tasks.TASKS, in the order of the corpus
    # Ids of the pieces between which the name of a document stands; PAD_ID: no names are marked.
    name_marks: tuple[int, int] = (PAD_ID, PAD_ID)

    def save(self, path: Path, about: str) -> None:
        """Write everything to a file, with `about`, the description of what it was made from."""
        arrays: dict[str, NDArray[np.integer]] = {
            STREAM: self.stream.astype(np.uint16),
            NAME_MARKS: np.array(self.name_marks, dtype=np.uint16),
        }
        for task, pairs in self.pairs.items():
            for side, rows in (("queries", pairs.queries), ("documents", pairs.documents)):
                packed = rows if isinstance(rows, Rows) else Rows.of(rows)
                arrays |= {f"{task}.{side}.ids": packed.ids, f"{task}.{side}.ends": packed.ends}
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(arrays, path, metadata={"about": about})


def read_arrays(path: Path, about: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of a file; None if it is missing or its `about` differs."""
    if not path.is_file():
        return None
    with safe_open(path, framework="numpy") as file:
        if file.metadata()["about"] != about:
            return None
    return load_file(path)


def load(path: Path, about: str) -> Data | None:
    """Read what `Data.save` wrote; None if the file is missing or its `about` differs."""
    arrays = read_arrays(path, about)
    if arrays is None:
        return None
    tasks = dict.fromkeys(name.split(".")[0] for name in arrays.keys() - {STREAM, NAME_MARKS})
    pairs = {
        task: Pairs(*(_rows(arrays, f"{task}.{side}") for side in ("queries", "documents")))
        for task in tasks
    }
    first, second = arrays[NAME_MARKS].tolist()
    return Data(arrays[STREAM], pairs, (first, second))


def _rows(arrays: dict[str, NDArray[np.integer]], name: str) -> Rows:
    """Return one side of the pairs of a task."""
    return Rows(arrays[f"{name}.ids"].astype(np.uint16), arrays[f"{name}.ends"].astype(np.int64))
