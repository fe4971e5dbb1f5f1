"""Rows of a job over texts: opened from its checkpoint, and what was left out of them."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from headlight.cli.embed.job_checkpoint import Rows, how_to_resume, opened_rows
from headlight.cli.embed.vector_options import vector_settings
from headlight.cli.files import UsageError, say, writing
from headlight.cli.input_lines import Given
from headlight.interface.arguments import Input
from headlight.results import Embeddings


def tell_left_out(rows: Rows, inputs: Given) -> None:
    """Report the number of truncated inputs, and each skipped input with its reason."""
    counts = rows.counts()
    if cut := int((counts[0] != counts[2]).sum()):
        say(f"{cut} of {len(rows)} texts were cut")
    for place, why in sorted(rows.skipped.items()):
        say(f"{inputs.describe(place, why)} (skipped)")
    if rows.skipped:
        say(f"{len(rows.skipped)} of {len(rows)} texts were skipped")


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
                kept = f"{len(rows)} of {len(inputs)} texts are kept in {folder}"
                say(f"{kept}; {how_to_resume(error)}")
            raise
