"""Files of `headlight embed`: the rows of its checkpoint, and the finished output."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from headlight.cli.embed.embed_options import vector_settings
from headlight.cli.embed.embed_output import (
    as_json,
    as_jsonl,
    as_preview,
    as_text,
    dimensions_of,
    write_npy,
    write_npz,
)
from headlight.cli.embed.job_checkpoint import OUTPUT, Rows, opened_rows, report_kept
from headlight.cli.files import PARTIAL, UsageError, is_terminal, say, screen, show, writing
from headlight.cli.input_lines import InputLines
from headlight.cli.output_files import count_text, say_written
from headlight.interface.arguments import Input
from headlight.results import Embeddings, ModelRef


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


def write(
    rows: Rows,
    inputs: InputLines,
    model: ModelRef,
    arguments: argparse.Namespace,
    folder: Path | None,
) -> None:
    """Write the requested output from all rows, and report a file.

    Args:
        rows: of all inputs.
        inputs: their ids, and their texts for a terminal.
        model: the weights.
        arguments: of the command.
        folder: of the checkpoint; None: there is none.
    """
    if arguments.out is None:
        for part in parts(rows, inputs, model, arguments):
            show(part, arguments.format)
        if is_preview(arguments) and len(rows):
            say("shortened for the terminal; --format text shows all numbers")
    else:
        with replacing(arguments.out, folder) as file:
            if arguments.format == "npz":
                write_npz(rows, model, inputs.ids, arguments.skip_bad, file)
            elif arguments.format == "npy":
                write_npy(rows, next(iter(rows.types)), file)
            else:
                file.writelines(part.encode() for part in parts(rows, inputs, model, arguments))
        say_written(arguments.out, vectors_text(rows))
    rows.spent = True


def parts(
    rows: Rows, inputs: InputLines, model: ModelRef, arguments: argparse.Namespace
) -> Iterator[str]:
    """Return the parts of an output that is text."""
    if is_preview(arguments):
        return as_preview(rows, inputs.texts, screen(None)[0])
    if arguments.format == "json":
        return as_json(rows, model, inputs.ids, arguments.skip_bad)
    return as_jsonl(rows, inputs.ids) if arguments.format == "jsonl" else as_text(rows)


def write_parts(out: str | None, shown: str, made: Iterable[str], what: str) -> None:
    """Show the parts of an output that is text, or write them to a file and report `what`."""
    if out is None:
        for part in made:
            show(part, shown)
        return
    with replacing(out, None) as file:
        file.writelines(part.encode() for part in made)
    say_written(out, what)


def is_preview(arguments: argparse.Namespace) -> bool:
    """Return whether vectors go to a terminal, and nobody asked for a format."""
    return arguments.out is None and arguments.format is None and is_terminal()


def vectors_text(rows: Rows) -> str:
    """Return number, width and types of the vectors, as "2 vectors of 256, float32"."""
    count = count_text(len(rows) - len(rows.skipped), "vector")
    return f"{count} of {dimensions_of(rows)}, {' and '.join(rows.types)}"


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


LISTS = ("json", "jsonl", "npz")  # formats that name the skipped lines


def report_skipped(rows: Rows, inputs: InputLines) -> None:
    """Report the number of truncated inputs, and each skipped input with its reason."""
    counts = rows.counts()
    if cut := int((counts[0] != counts[2]).sum()):
        say(f"{cut} of {len(rows)} texts were cut")
    for place, why in sorted(rows.skipped.items()):
        say(f"{inputs.describe(place, why)} (skipped)")


def report_left_out(rows: Rows, form: str | None, out: str | None) -> int:
    """Report how many inputs were skipped, and where they are listed. Return the exit code."""
    if not rows.skipped:
        return 0
    listed = "" if form not in LISTS or out is None else f" and in {out}"
    say(f"{len(rows.skipped):,} of {len(rows):,} texts were skipped: listed above{listed}")
    return PARTIAL


def made_with(arguments: argparse.Namespace, nothing: Embeddings) -> dict[str, object]:
    """Return the settings on which the vectors and the choice of inputs depend.

    Values are as in JSON; names are those of options, for the error message.
    """
    return {
        **vector_settings(arguments, nothing),
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

    Raises UsageError if the rows belong to other inputs, OutputError if they cannot be written.
    """
    if folder is None:
        rows = Rows(io.BytesIO(), nothing)
        try:
            yield rows
        except KeyboardInterrupt:
            if len(rows):
                say(f"{len(rows):,} of {len(inputs):,} texts were finished; --out FILE keeps them")
            raise
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
            say(f"going on from {folder}, which has {len(rows):,} of {len(inputs):,} texts")
        try:
            yield rows
        except BaseException as error:
            report_kept(len(rows), len(inputs), "texts", str(folder), error)
            raise
