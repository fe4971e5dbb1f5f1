"""Files of `headlight embed`: the folder of its checkpoint, and the finished output."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headlight.cli.embed.embed_output import (
    as_json,
    as_jsonl,
    as_text,
    dimensions_of,
    write_npy,
    write_npz,
)
from headlight.cli.embed.job_checkpoint import OUTPUT, Rows
from headlight.cli.embed.vector_preview import as_preview
from headlight.cli.files import is_terminal, say, screen, show, writing
from headlight.cli.input_lines import Given
from headlight.cli.output_files import count_text, say_written
from headlight.results import ModelRef


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
    rows: Rows, inputs: Given, model: ModelRef, arguments: argparse.Namespace, folder: Path | None
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
    rows: Rows, inputs: Given, model: ModelRef, arguments: argparse.Namespace
) -> Iterator[str]:
    """Return the parts of an output that is text."""
    if is_preview(arguments):
        return as_preview(rows, inputs.texts, screen(None)[0])
    if arguments.format == "json":
        return as_json(rows, model, inputs.ids, arguments.skip_bad)
    return as_jsonl(rows, inputs.ids) if arguments.format == "jsonl" else as_text(rows)


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
