"""`headlight embed --multi-vector`: a vector for each token, as lines of JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from headlight.archive import to_json
from headlight.cli.embed.embed_files import write_parts
from headlight.cli.embed.embed_options import check_kind, encoder_of
from headlight.cli.embed.embed_output import json_numbers
from headlight.cli.files import UsageError
from headlight.cli.input_lines import InputLines, read_inputs
from headlight.cli.output_files import count_text
from headlight.cli.shared_options import reading
from headlight.client.channel import READY_SECONDS
from headlight.description import ModelDescription
from headlight.results import TokenVectors
from headlight.spec import VectorType

UNUSED = ("dimensions", "normalize", "progress", "retry_for")


def add_multi_vector(group: argparse._ArgumentGroup) -> None:
    """Add the option of multi-vectors."""
    group.add_argument(
        "--multi-vector",
        action="store_true",
        help=(
            "a vector for each token, matched one by one, of a late-interaction model (ColBERT): "
            "in jsonl, or a column of parquet; see --role and --dtype"
        ),
    )


def multi_vector_type(arguments: argparse.Namespace) -> VectorType:
    """Return the type of the vectors. Raises UsageError for options of other outputs."""
    for name in UNUSED[:2]:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name}: is not for --multi-vector; leave it out")
    dtypes: Sequence[VectorType] = arguments.dtype or ("float32",)
    if arguments.sparse or len(dtypes) > 1:
        raise UsageError("--multi-vector: gives one type, without --sparse")
    return dtypes[0]


def check_multi_vector(arguments: argparse.Namespace, model: ModelDescription) -> None:
    """Raise UsageError if the model gives no multi-vectors, or not of such inputs."""
    if "multi_vector" not in model.outputs:
        gives = ", ".join(model.outputs)
        raise UsageError(f"--multi-vector: {model.name} gives none; it gives {gives}")
    check_kind(arguments, model)


def embed_multi_vector(arguments: argparse.Namespace) -> None:
    """Run `headlight embed --multi-vector`."""
    dtype = multi_vector_type(arguments)
    if arguments.format != "jsonl" or arguments.skip_bad or arguments.spans is not None:
        raise UsageError(
            "--multi-vector: writes --format jsonl or a table, without --skip-bad and --spans"
        )
    for name in UNUSED[2:]:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')}: is not for --multi-vector; leave it out")
    inputs = read_inputs(arguments)
    with encoder_of(arguments, 1, READY_SECONDS) as encoder:
        check_multi_vector(arguments, encoder.model())
        vectors = encoder.multi_vectors(inputs.texts, dtype=dtype, **reading(arguments))
    made = lines(vectors, inputs)
    write_parts(arguments.out, "jsonl", made, count_text(len(vectors), "multi-vector"))


def lines(vectors: Sequence[TokenVectors], inputs: InputLines) -> Iterator[str]:
    """Yield a line of JSON for each text: its id, its tokens, and the vectors in their order."""
    for place, each in enumerate(vectors):
        entry: dict[str, object] = {} if inputs.ids is None else {"id": inputs.ids[place]}
        entry |= {"tokens": each.token_count, "truncated": each.cut_tokens > 0}
        rows = ", ".join(map(json_numbers, each.vectors))
        yield f'{to_json(entry)[:-1]}, "vectors": [{rows}]}}\n'
