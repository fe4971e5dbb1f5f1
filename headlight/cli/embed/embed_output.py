"""Output of `headlight embed` as text, JSON, array, archive or preview, in a few MB of memory."""

from __future__ import annotations

import dataclasses
import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.terminal_view import cells, fit, visible
from headlight.archive import add_arrays, to_json
from headlight.cli.embed.job_checkpoint import NO_VECTORS, Rows
from headlight.cli.output_files import count_text
from headlight.cli.result_output import numbers
from headlight.interface.arguments import Input
from headlight.results import ModelRef, Usage
from headlight.spec import VECTOR_BITS, VectorType

# Python's text for numbers that JSON lacks, such as a float16 that overflowed
NOT_FINITE = re.compile(r"-?inf|nan")


def as_text(rows: Rows) -> Iterator[str]:
    """Yield a line of numbers for each input, for `numpy.loadtxt`; vectors of the first type."""
    for vectors in rows.vectors(next(iter(rows.types))):
        yield "".join(f"{' '.join(map(str, row))}\n" for row in vectors)


def as_jsonl(rows: Rows, ids: Sequence[str] | None) -> Iterator[str]:
    """Yield a line of JSON for each input: id, tokens, and its vector (of several types: by type).

    A skipped input has a null vector, and the reason. `ids` as for `as_json`.
    """
    vectors = {name: itertools.chain.from_iterable(rows.vectors(name)) for name in rows.types}
    for place, (count, _, original) in enumerate(rows.counts().T.tolist()):
        entry: dict[str, object] = {} if ids is None else {"id": ids[place]}
        if count == NO_VECTORS:
            yield f"{to_json({**entry, 'embedding': None, 'error': rows.skipped[place]})}\n"
            continue
        entry |= {"tokens": count, "truncated": count != original}
        by_type = {name: json_numbers(next(each)) for name, each in vectors.items()}
        several = ", ".join(f'"{name}": {vector}' for name, vector in by_type.items())
        shown = f"{{{several}}}" if len(by_type) > 1 else next(iter(by_type.values()))
        yield f'{to_json(entry)[:-1]}, "embedding": {shown}}}\n'


def as_json(rows: Rows, model: ModelRef, ids: Sequence[str] | None, skips: bool) -> Iterator[str]:
    """Yield one line of JSON in parts: vectors (by type if several), token counts and the weights.

    Skipped inputs are null.

    Args:
        rows: rows of all inputs.
        model: the weights.
        ids: ids of the inputs; None: they have none.
        skips: whether inputs may have been skipped; if so, the skipped ones are listed.
    """
    counts = rows.counts()
    good = counts[0] != NO_VECTORS
    head: dict[str, object] = {
        "model": dataclasses.asdict(model),
        "token_counts": [count if count != NO_VECTORS else None for count in counts[0].tolist()],
        "truncated": (counts[0] != counts[2]).tolist(),
        "usage": Usage(*(int(each[good].sum()) for each in counts))._asdict(),
    }
    if ids is not None:
        head["ids"] = ids
    if skips:
        head["errors"] = [
            {"line": place + 1, "error": why} for place, why in sorted(rows.skipped.items())
        ]
    yield f'{to_json(head)[:-1]}, "embeddings": '
    several = len(rows.types) > 1
    for at, name in enumerate(rows.types):
        yield ("{" if at == 0 else ", ") + f'"{name}": ' if several else ""
        yield from json_rows(rows, name, good)
    yield "}}\n" if several else "}\n"


def json_rows(rows: Rows, name: str, good: NDArray[np.bool_]) -> Iterator[str]:
    """Yield the vectors of one type as lists of numbers; null for rows that are not good."""
    vectors = (vector for some in rows.vectors(name) for vector in some)
    yield "["
    for at, has_one in enumerate(good):
        entry = json_numbers(next(vectors)) if has_one else "null"
        yield f", {entry}" if at else entry
    yield "]"


def json_numbers(vector: NDArray[Any]) -> str:
    """Return a vector as a list of JSON, which has no infinity."""
    return NOT_FINITE.sub("null", str(numbers(vector)))


def dimensions_of(rows: Rows) -> int:
    """Return the dimensions of the vectors, which a byte of a binary type has eight of."""
    name, (dtype, width) = next(iter(rows.types.items()))
    stored: int = 8 * width * dtype.itemsize
    return stored // VECTOR_BITS[cast("VectorType", name)]


def write_npz(
    rows: Rows, model: ModelRef, ids: Sequence[str] | None, skips: bool, file: BinaryIO
) -> None:
    """Write a compressed archive, readable without pickle.

    Vectors of several types are `embeddings_float32` and so on. Skipped inputs have no row. `lines`
    has the line number of each row, from 1; `skipped_lines` has the other line numbers. Arguments
    as for `as_json`.
    """
    counts = rows.counts()
    good = counts[0] != NO_VECTORS
    arrays: dict[str, NDArray[Any]] = {
        "token_counts": counts[0][good],
        "truncated": (counts[0] != counts[2])[good],
        "model": np.array(to_json(dataclasses.asdict(model))),
    }
    if ids is not None:
        arrays["ids"] = np.array([ids[place] for place in np.flatnonzero(good).tolist()], str)
    if skips:
        arrays |= {"lines": np.flatnonzero(good) + 1, "skipped_lines": np.flatnonzero(~good) + 1}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in rows.types:
            title = f"embeddings_{name}" if len(rows.types) > 1 else "embeddings"
            with archive.open(f"{title}.npy", "w", force_zip64=True) as member:
                write_npy(rows, name, member)
        add_arrays(archive, arrays)


def write_npy(rows: Rows, name: str, file: Any) -> None:
    """Write the vectors of one type as one array [N, D]."""
    dtype, width = rows.types[name]
    shape = (len(rows) - len(rows.skipped), width)
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)
    for vectors in rows.vectors(name):
        file.write(vectors.tobytes())


LABEL_CELLS = 24  # of a text's beginning
LEAST_NUMBERS = 3
CELLS, WHOLE_CELLS = 7, 4  # of a number


def as_preview(rows: Rows, inputs: Sequence[Input], width: int) -> Iterator[str]:
    """Yield a line for each text: its beginning, the first numbers, dimensions and norm.

    Vectors of several types are shown in the first.

    Args:
        rows: of all inputs.
        inputs: the texts or ids.
        width: columns of the terminal.
    """
    name = next(iter(rows.types))
    places = np.flatnonzero(rows.counts()[0] != NO_VECTORS).tolist()
    labels = [label_of(inputs[place]) for place in places]
    longest = min(LABEL_CELLS, max(map(cells, labels), default=0))
    vectors = itertools.chain.from_iterable(rows.vectors(name))
    for label, vector in zip(labels, vectors, strict=True):
        ending = ending_of(vector, dimensions_of(rows), name)
        entries = [entry_of(number) for number in vector[: width // 2]]
        room = width - longest - len(ending) - 3
        shown = max(LEAST_NUMBERS, room // (len(entries[0]) + 1))
        numbers = " ".join(entries[:shown])
        yield f"{fit(label, longest)}  {numbers} {ending}\n"


def label_of(value: Input) -> str:
    """Return the beginning of an input on one line: a text, or token ids."""
    if isinstance(value, str):
        return visible(value[: LABEL_CELLS * 4]).replace("␣", " ")
    return " ".join(map(str, value[:LABEL_CELLS]))


def entry_of(number: Any) -> str:
    """Return one number in a column: fewer decimals if large, an exponent for the largest."""
    if isinstance(number, np.integer):
        return f"{number:{WHOLE_CELLS}d}"
    shown = (f"{number:{CELLS}.{digits}f}" for digits in range(4, 0, -1))
    return next((text for text in shown if len(text) == CELLS), f"{number:{CELLS}.0e}")


def ending_of(vector: NDArray[Any], dimensions: int, name: str) -> str:
    """Return what follows the first numbers: how many there are, and their norm or type."""
    count = count_text(dimensions, "dimension")
    if vector.dtype.kind == "f":
        return f"… {count}, norm {float(np.linalg.norm(vector.astype(np.float64))):.4g}"
    return f"… {count}, {name}"
