"""`headlight embed`: its options, its output, and resuming from a checkpoint."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from headlight.cli.embed.embed_job import JobRetries, fill
from headlight.cli.embed.embed_output import as_json, as_text, write_npy, write_npz
from headlight.cli.embed.job_checkpoint import OUTPUT, Rows, opened_rows
from headlight.cli.embed.progress import Progress
from headlight.cli.files import UsageError, say, show, writing
from headlight.cli.input_lines import Given, given
from headlight.cli.shared_options import (
    add_reading,
    add_texts,
    add_vectors,
    command,
    connect,
    reading,
    seconds,
    vector_types,
)
from headlight.cli.signals import ended_by_sigterm
from headlight.client.channel import READY_SECONDS
from headlight.description import ModelDescription
from headlight.errors import MixedWeights
from headlight.interface.arguments import Input
from headlight.results import Embeddings, ModelRef

RETRY_SECONDS = 60.0


def add_embed(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands, "embed", run_embed, "vectors of texts", formats=("text", "json", "npz", "npy")
    )
    add_texts(made)
    add_reading(made, several=True)
    add_vectors(made)
    made.add_argument(
        "--token-ids",
        action="store_true",
        help=(
            "each text is a list of token ids, special ones included, as 2 705 1210 3: "
            "for models without a tokenizer"
        ),
    )
    made.add_argument(
        "--id-field",
        metavar="NAME",
        help=(
            "lines are JSON objects; keep a text of at most 1000 characters or a whole number from "
            "each, as `ids` of npz and json"
        ),
    )
    made.add_argument(
        "--skip-bad",
        action="store_true",
        help=(
            "leave out what cannot be encoded (too long, empty) and say so on standard error: npz "
            "has `lines`, the numbers of the lines that its rows are of, and `skipped_lines`; "
            "json has null and `errors`; text and npy have no row for it"
        ),
    )
    made.add_argument(
        "--retry-for",
        type=seconds,
        metavar="SECONDS",
        help=(
            "wait so long for a service that is away or overloaded, since it last answered; "
            f"default: {RETRY_SECONDS:g} for texts from a file or standard input, else 0"
        ),
    )
    made.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help=(
            "tell on standard error how far it is; default: in a terminal, "
            "for texts from a file or standard input"
        ),
    )
    made.epilog = (
        "Of texts from a file or standard input, with --out OUT, vectors are kept in OUT.partial "
        "as they come; OUT is written at the end. After an error, Ctrl-C or SIGTERM the same "
        "command goes on from there; texts not done yet may be mended first."
    )


def run_embed(arguments: argparse.Namespace) -> None:
    """Run `headlight embed`."""
    dtypes = vector_types(arguments)
    if arguments.id_field is not None and arguments.format not in ("json", "npz"):
        raise UsageError("--id-field: text and npy hold vectors alone; use --format json or npz")
    inputs = given(arguments)
    listed, texts = inputs.name is not None, inputs.texts
    progress = Progress(
        len(texts), wanted=arguments.progress if listed else bool(arguments.progress)
    )

    def tell(line: str) -> None:
        progress.clear()
        say(line)

    usual = RETRY_SECONDS if listed else 0.0
    # The job's own waiting is reported.
    ready = 0.0 if listed or arguments.retry_for is not None else READY_SECONDS
    retries = JobRetries(
        usual if arguments.retry_for is None else arguments.retry_for, arguments.timeout, tell
    )
    with ended_by_sigterm(), connect(arguments, 1, ready) as client:
        model = retries.persist(client.model)
        check_kind(arguments, model)

        def encode(some: Sequence[Input]) -> Embeddings:
            return client.encode_with_info(
                some,
                dimensions=arguments.dimensions,
                normalize=arguments.normalize,
                dtype=dtypes,
                **reading(arguments),
            )

        nothing = encode([])
        folder = partial_folder(arguments.out) if listed and arguments.out is not None else None
        with rows_in(
            folder, made_with(arguments, nothing), nothing, texts, arguments.skip_bad
        ) as rows:
            try:
                progress.begin(len(rows))
                fill(
                    rows,
                    inputs,
                    client,
                    encode,
                    skip=arguments.skip_bad,
                    model=model,
                    retries=retries,
                    tell=progress.tell,
                )
            finally:
                progress.clear()
            tell_left_out(rows, inputs)
            write(rows, model.ref, inputs.ids, arguments, folder)


def check_kind(arguments: argparse.Namespace, model: ModelDescription) -> None:
    """Raise UsageError if the model takes no inputs of this kind, so that all of them are bad."""
    kind, remedy = (
        ("ids", "leave out --token-ids")
        if arguments.token_ids
        else ("text", "give token ids, by --token-ids")
    )
    if model.accepts and kind not in model.accepts:
        raise UsageError(
            f"{model.name} takes {' or '.join(model.accepts)}, and no {kind}; {remedy}"
        )


def tell_left_out(rows: Rows, inputs: Given) -> None:
    """Report the number of truncated inputs, and each skipped input with its reason."""
    counts = rows.counts()
    if cut := int((counts[0] != counts[2]).sum()):
        say(f"{cut} of {len(rows)} texts were cut")
    for place, why in sorted(rows.skipped.items()):
        say(f"{inputs.describe(place, why)} (skipped)")
    if rows.skipped:
        say(f"{len(rows.skipped)} of {len(rows)} texts were skipped")


def partial_folder(out: str) -> Path | None:
    """Return the checkpoint folder; None: keep vectors in memory.

    They stay in memory if the output is no regular file, or its folder is not writable.
    """
    # By its given name: if /dev/stdout links to a pipe, the target has no name.
    regular = Path(out).is_file() or not Path(out).exists()
    target = Path(os.path.realpath(out))
    if not regular or not os.access(target.parent, os.W_OK | os.X_OK):
        return None
    return target.with_name(f"{target.name}.partial")


def made_with(arguments: argparse.Namespace, nothing: Embeddings) -> dict[str, object]:
    """Return all that vectors depend on besides their inputs, and the choice of inputs.

    Values are as in JSON; names are those that a user knows.
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
        "--text-field": arguments.text_field,
        "--id-field": arguments.id_field,
    }


@contextlib.contextmanager
def rows_in(
    folder: Path | None,
    made_with: dict[str, object],
    nothing: Embeddings,
    inputs: Sequence[Input],
    skip_bad: bool,
) -> Iterator[Rows]:
    """Open rows in a checkpoint folder, or in memory.

    Raises UsageError if they are of other inputs, OutputError if they cannot be written.
    """
    if folder is None:
        yield Rows(io.BytesIO(), nothing)
        return
    with writing(str(folder)), opened_rows(folder, made_with, nothing) as rows:
        other = rows.first_other(inputs)
        if other is not None:
            raise UsageError(
                f"{folder}: was made of another text {other + 1}; remove it to begin anew, "
                "or name another --out"
            )
        if rows.skipped and not skip_bad:
            raise UsageError(
                f"{folder}: was made with --skip-bad, and skipped some; give it again, "
                "or remove the folder to begin anew"
            )
        if len(rows):
            say(f"going on from {folder}, which has {len(rows)} of {len(inputs)} texts")
        try:
            yield rows
        except BaseException as error:
            if len(rows):
                # They may compare later, if only some replicas have the new weights yet, or after a
                # rollback.
                mixed = (
                    ", once the weights before answer again; else remove it"
                    if isinstance(error, MixedWeights)
                    else ""
                )
                say(
                    f"{len(rows)} of {len(inputs)} texts are kept in {folder}; "
                    f"the same command goes on from there{mixed}"
                )
            raise


def write(
    rows: Rows,
    model: ModelRef,
    ids: Sequence[str] | None,
    arguments: argparse.Namespace,
    folder: Path | None,
) -> None:
    """Write the requested output from all rows."""
    parts = (
        as_json(rows, model, ids, arguments.skip_bad)
        if arguments.format == "json"
        else as_text(rows)
    )
    if arguments.out is None:
        for part in parts:
            show(part, arguments.format)
    else:
        with replacing(arguments.out, folder) as file:
            if arguments.format == "npz":
                write_npz(rows, model, ids, arguments.skip_bad, file)
            elif arguments.format == "npy":
                write_npy(rows, next(iter(rows.types)), file)
            else:
                file.writelines(part.encode() for part in parts)
    rows.spent = True


@contextlib.contextmanager
def replacing(out: str, folder: Path | None) -> Iterator[BinaryIO]:
    """Write a file, first in the folder if there is one.

    So the name always has the whole new content, or the old one.
    """
    target = Path(os.path.realpath(out))
    whole = Path(out) if folder is None else folder / OUTPUT
    with writing(out):
        with whole.open("wb") as file:
            yield file
            file.flush()
            if folder is not None:
                os.fsync(file.fileno())
        if folder is not None:
            if target.exists():
                shutil.copymode(target, whole)
            os.replace(whole, target)
