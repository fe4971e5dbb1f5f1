"""Options for the form of vectors."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from headlight.cli.files import UsageError
from headlight.cli.shared_options import reading
from headlight.interface.arguments import Input
from headlight.interface.encoder import Encoder
from headlight.results import Embeddings
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


def encoding(
    encoder: Encoder, arguments: argparse.Namespace
) -> Callable[[Sequence[Input]], Embeddings]:
    """Return a function that encodes some inputs as the options say.

    Raises UsageError as `vector_types`.
    """
    options = {
        "dimensions": arguments.dimensions,
        "normalize": arguments.normalize,
        "dtype": vector_types(arguments),
        **reading(arguments),
    }
    return lambda some: encoder.encode_with_info(some, **options)


def vector_settings(arguments: argparse.Namespace, nothing: Embeddings) -> dict[str, object]:
    """Return the settings on which vectors depend, for a job that may be resumed.

    Values are as in JSON; names are those of options, for the error message.
    """
    return {
        "model or precision": [
            nothing.model.name,
            nothing.model.bundle_sha256,
            nothing.model.precision,
        ],
        "--dtype or --dimensions": [
            [name, each.dtype.str, each.shape[1]] for name, each in nothing.by_type.items()
        ],
        "--normalize": arguments.normalize,
        "--truncate": arguments.truncate,
        "--prompt": [arguments.prompt_name, arguments.prompt],
        "--special-tokens": arguments.special_tokens,
        "--empty-texts": arguments.empty_texts,
    }
