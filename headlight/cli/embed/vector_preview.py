"""Vectors in a terminal: a short line for each text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.terminal_view import cells, fit, visible
from headlight.cli.embed.embed_output import dimensions_of
from headlight.cli.embed.job_checkpoint import NO_VECTORS, Rows
from headlight.cli.output_files import count_text
from headlight.interface.arguments import Input

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
