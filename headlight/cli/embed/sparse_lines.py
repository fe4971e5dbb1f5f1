"""`headlight embed --sparse`: the terms of each text, for people or as lines of JSON."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from headlight.archive import to_json
from headlight.cli.embed.embed_files import write_parts
from headlight.cli.embed.embed_options import check_kind, encoder_of
from headlight.cli.embed.embed_output import json_numbers, label_of
from headlight.cli.files import UsageError
from headlight.cli.input_lines import InputLines, read_inputs
from headlight.cli.output_files import count_text
from headlight.cli.shared_options import reading
from headlight.client.channel import READY_SECONDS
from headlight.command_parser import positive
from headlight.description import ModelDescription
from headlight.printable import escaped
from headlight.results import SparseVector
from headlight.spec import SparseSpec

FORM = ("top_k", "min_weight", "pieces")  # options of sparse vectors alone
NOT_SPARSE = ("dimensions", "normalize", "dtype")
NOT_LINES = ("progress", "retry_for")
FORMATS = ("text", "jsonl")


def add_sparse(group: argparse._ArgumentGroup) -> None:
    """Add the options of sparse vectors."""
    group.add_argument(
        "--sparse",
        action="store_true",
        help=(
            "the terms of the vocabulary that a text has weight in, of a sparse encoder (SPLADE): "
            "the largest first; in jsonl and parquet ascending, as an index stores them"
        ),
    )
    group.add_argument(
        "--top-k",
        type=positive,
        metavar="K",
        help="with --sparse: keep the K largest weights; default: 1024",
    )
    group.add_argument(
        "--min-weight",
        type=float,
        metavar="W",
        help="with --sparse: leave out terms of less weight",
    )
    group.add_argument(
        "--pieces",
        action="store_true",
        help="with --sparse: the vocabulary's spelling of each term; text always has it",
    )


def check_no_sparse(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that need --sparse."""
    for name in FORM:
        if getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')}: needs --sparse")


def sparse_options(arguments: argparse.Namespace) -> SparseSpec:
    """Return the form of sparse vectors. Raises UsageError for options of others."""
    for name in NOT_SPARSE:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name}: is not for --sparse; leave it out")
    return SparseSpec(
        top_k=arguments.top_k,
        min_weight=arguments.min_weight or 0.0,
        pieces=arguments.pieces,
    )


def check_sparse(arguments: argparse.Namespace, model: ModelDescription) -> None:
    """Raise UsageError if the model gives no sparse vectors, or not of such inputs."""
    if "sparse" not in model.outputs:
        gives = ", ".join(model.outputs)
        raise UsageError(f"--sparse: {model.name} gives no terms; it gives {gives}")
    check_kind(arguments, model)


def embed_sparse(arguments: argparse.Namespace) -> None:
    """Run `headlight embed --sparse`."""
    spec, shown = sparse_options(arguments), arguments.format or "text"
    if shown not in FORMATS or arguments.skip_bad or arguments.spans is not None:
        raise UsageError("--sparse: writes text or jsonl, without --skip-bad and --spans")
    for name in NOT_LINES:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')}: is not for --sparse; leave it out")
    inputs = read_inputs(arguments)
    with encoder_of(arguments, 1, READY_SECONDS) as encoder:
        model = encoder.model()
        check_sparse(arguments, model)
        if shown == "text":
            spec = dataclasses.replace(spec, pieces="text" in model.accepts)
        vectors = encoder.encode_sparse(
            inputs.texts, **dataclasses.asdict(spec), **reading(arguments)
        )
    made = sparse_text(vectors, inputs) if shown == "text" else sparse_lines(vectors, inputs)
    write_parts(arguments.out, shown, made, count_text(len(vectors), "sparse vector"))


def sparse_lines(vectors: Sequence[SparseVector], inputs: InputLines) -> Iterator[str]:
    """Yield a line of JSON for each text: its id, its tokens, and its terms by ascending index."""
    for place, each in enumerate(vectors):
        entry: dict[str, object] = {} if inputs.ids is None else {"id": inputs.ids[place]}
        entry |= {"tokens": each.token_count, "truncated": each.cut_tokens > 0}
        entry["indices"] = each.indices.tolist()
        if each.pieces:
            entry["pieces"] = each.pieces
        yield f'{to_json(entry)[:-1]}, "values": {json_numbers(each.values)}}}\n'


def sparse_text(vectors: Sequence[SparseVector], inputs: InputLines) -> Iterator[str]:
    """Yield each text with a line for each of its terms, the largest weight first."""
    for place, each in enumerate(vectors):
        lines = [label_of(inputs.texts[place])]
        for at in np.argsort(-each.values, kind="stable"):
            term = escaped(each.pieces[at]) if each.pieces else each.indices[at]
            lines.append(f"{each.values[at]:7.3f}  {term}")
        yield "\n".join(["", *lines] if place else lines) + "\n"
