"""Rows of a job over texts: opened from its checkpoint, and what was left out of them."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from headlight.cli.embed.job_checkpoint import Rows, opened_rows, tell_kept
from headlight.cli.embed.vector_options import vector_settings
from headlight.cli.files import PARTIAL, UsageError, say, writing
from headlight.cli.input_lines import Given
from headlight.interface.arguments import Input
from headlight.results import Embeddings

LISTS = ("json", "jsonl", "npz")  # formats that name the skipped lines


def tell_reasons(rows: Rows, inputs: Given) -> None:
    """Report the number of truncated inputs, and each skipped input with its reason."""
    counts = rows.counts()
    if cut := int((counts[0] != counts[2]).sum()):
        say(f"{cut} of {len(rows)} texts were cut")
    for place, why in sorted(rows.skipped.items()):
        say(f"{inputs.describe(place, why)} (skipped)")


def tell_left_out(rows: Rows, form: str | None, out: str | None) -> int:
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
            tell_kept(len(rows), len(inputs), "texts", str(folder), error)
            raise
