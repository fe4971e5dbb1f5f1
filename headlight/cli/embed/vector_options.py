"""Options for the form of vectors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from headlight.cli.files import UsageError
from headlight.spec import VECTOR_BITS, VectorType

ONE_TYPE = ("text", "npy")  # formats that hold vectors of one type, without ids


def add_vectors(made: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add options for the form of vectors, and return their group."""
    group = made.add_argument_group("vectors")
    group.add_argument("--dimensions", type=int, metavar="D", help="keep this many, from the first")
    group.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="make vectors have unit length, or not; default: as the model does",
    )
    group.add_argument(
        "--dtype",
        action="append",
        choices=tuple(VECTOR_BITS),
        help=(
            "type of the numbers, default float32; several times for several, "
            "in the formats json, jsonl, npz and parquet"
        ),
    )
    return group


def vector_types(arguments: argparse.Namespace) -> Sequence[VectorType]:
    """Return the types of the options of `add_vectors`.

    Raises UsageError if the format cannot show them.
    """
    dtypes: Sequence[VectorType] = arguments.dtype or ("float32",)
    if len(dtypes) > 1 and (arguments.format or "text") in ONE_TYPE:
        raise UsageError(
            "--dtype: text and npy hold one type; use --format json, jsonl or npz for several"
        )
    return dtypes
