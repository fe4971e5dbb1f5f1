"""How `headlight embed` writes vectors: as text, as JSON, or as a NumPy archive; a few megabytes of them in memory at a time."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headlight.embeddings import Usage
from headlight.output import numbers, to_json
from headlight.results import ModelRef
from headlight.rows import NO_VECTORS, Rows


def as_text(rows: Rows) -> Iterator[str]:
    """A line of numbers for each input, as `numpy.loadtxt` reads them; vectors of the first type."""
    for vectors in rows.vectors(next(iter(rows.types))):
        yield "".join(f"{' '.join(map(str, row))}\n" for row in vectors)


def as_json(rows: Rows, model: ModelRef) -> Iterator[str]:
    """The vectors (of several types: by type), token counts, and which weights answered; on one line."""
    counts = rows.counts()
    head = {
        "model": dataclasses.asdict(model),
        "token_counts": counts[0].tolist(),
        "truncated": (counts[0] != counts[2]).tolist(),
        "usage": Usage(*(int(each.sum()) for each in counts))._asdict(),
    }
    yield f'{to_json(head)[:-1]}, "embeddings": '
    several = len(rows.types) > 1
    for at, name in enumerate(rows.types):
        yield ("{" if at == 0 else ", ") + f'"{name}": ' if several else ""
        yield from json_rows(rows, name)
    yield "}}\n" if several else "}\n"


def json_rows(rows: Rows, name: str) -> Iterator[str]:
    """The vectors of one type as lists of numbers."""
    comma = ""
    yield "["
    for vectors in rows.vectors(name):
        for vector in vectors:
            yield comma + str(numbers(vector))
            comma = ", "
    yield "]"


def write_npz(rows: Rows, model: ModelRef, file: BinaryIO) -> None:
    """A compressed archive, readable without pickle; vectors of several types as `embeddings_float32` and the like."""
    counts = rows.counts()
    arrays: dict[str, NDArray[Any]] = {
        "token_counts": counts[0],
        "truncated": counts[0] != counts[2],
        "model": np.array(to_json(dataclasses.asdict(model))),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in rows.types:
            title = f"embeddings_{name}" if len(rows.types) > 1 else "embeddings"
            with archive.open(f"{title}.npy", "w", force_zip64=True) as member:
                write_npy(rows, name, member)
        for title, array in arrays.items():
            with archive.open(f"{title}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def write_npy(rows: Rows, name: str, file: Any) -> None:
    """The vectors of one type as one array [N, D]."""
    dtype, width = rows.types[name]
    count = int((rows.counts()[0] != NO_VECTORS).sum())
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count, width)}
    np.lib.format.write_array_header_1_0(file, head)
    for vectors in rows.vectors(name):
        file.write(vectors.tobytes())
