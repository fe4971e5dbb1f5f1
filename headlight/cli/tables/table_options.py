"""Options for tables, and what depends on them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headlight.cli.files import UsageError, check_writable

if TYPE_CHECKING:
    from headlight.cli.tables.table_source import TableSource

PART_ROWS = 2048
JOINED = ".parquet"
# Options that tables do not have, with the value of each if it is not given.
EXCLUDED = {
    "file": None,
    "text_field": None,
    "id_field": None,
    "token_ids": False,
    "skip_bad": False,
    "spans": None,
    "beyond_max_length": False,
}


def add_tables(made: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add options for tables, and return their group."""
    group = made.add_argument_group("tables")
    group.add_argument(
        "--text-column",
        metavar="NAME",
        help=(
            "the arguments are Parquet or Arrow files, folders of them or globs, local or URLs "
            "such as s3://bucket/docs; their texts are in this column"
        ),
    )
    group.add_argument(
        "--id-column", metavar="NAME", help="keep this column, and name rejected rows by it"
    )
    group.add_argument(
        "--keep-column",
        action="append",
        default=[],
        metavar="NAME",
        help="keep this column too; several times for several",
    )
    group.add_argument(
        "--part-rows",
        type=int,
        metavar="N",
        help=(
            f"rows of a part, default {PART_ROWS}: after an end by force, at most two parts are "
            "computed again; of a service, what was not yet saved, every 10 s"
        ),
    )
    return group


def is_table(arguments: argparse.Namespace) -> bool:
    """Return whether the arguments are tables.

    Raises UsageError for tables without a column of texts, and options that need one.
    """
    if arguments.text_column is not None:
        return True
    for option in ("id_column", "keep_column", "part_rows", "pair_column"):
        if getattr(arguments, option, None):
            raise UsageError(f"--{option.replace('_', '-')}: is for tables; add --text-column")
    if arguments.format == "parquet":
        raise UsageError("--format parquet: is for tables; name their texts by --text-column")
    for text in arguments.texts:
        if text.endswith(JOINED):
            raise UsageError(
                f"{text}: name its column of texts by --text-column; "
                "give a text that ends so by --file"
            )
    return False


def check_table_options(arguments: argparse.Namespace, results: Sequence[str]) -> None:
    """Raise UsageError for options that tables do not have, or without an output.

    `results`: the names of the columns of results.
    """
    for name, usual in EXCLUDED.items():
        if getattr(arguments, name, usual) != usual:
            raise UsageError(f"--{name.replace('_', '-')}: is not for tables; leave it out")
    if not arguments.texts:
        raise UsageError("--text-column: name tables, as docs.parquet or a folder of such files")
    if arguments.format not in (None, "parquet"):
        raise UsageError(f"--format {arguments.format}: of a table, only parquet is written")
    if arguments.out is None:
        raise UsageError(
            f"--text-column: name the output by --out, as out{JOINED} or a folder of parts"
        )
    arguments.format = "parquet"
    if arguments.part_rows is None:
        arguments.part_rows = PART_ROWS
    if not 1 <= arguments.part_rows <= 1_000_000:
        raise UsageError(f"--part-rows: is {arguments.part_rows}; must be from 1 to 1,000,000")
    if is_joined(arguments) and "://" not in arguments.out:
        check_writable("--out", arguments.out)
    added = [*results, "token_count", "truncated"]
    if arguments.id_column is None:
        added.insert(0, "row")
    copied = copied_columns(arguments)
    for name in added:
        if name in copied:
            raise UsageError(
                f"--keep-column {name}: the output has a column of that name; leave it out"
            )


def check_apart(arguments: argparse.Namespace, source: TableSource) -> None:
    """Raise UsageError for an output that replaces an input, or would be read as one."""
    out = located(arguments.out)
    for file in source.files:
        if located(file.name) in {out, located(rejected_file(arguments))}:
            raise UsageError(f"--out: {out} is an input, which it would replace; name another")
    for name in arguments.texts:
        folder = located(name).rstrip("/")
        if out.rstrip("/") == folder or out.startswith(f"{folder}/"):
            raise UsageError(
                f"--out: {out} is or lies in the input folder {name}, and a later run would read "
                "it; name a place outside"
            )


def located(name: str) -> str:
    """Return a URL as it is, and a path without links."""
    return name if "://" in name else os.path.realpath(name)


def folder_name(arguments: argparse.Namespace) -> str:
    """Return the folder of the parts: beside the file itself if --out is a link to it."""
    out = located(arguments.out)
    return f"{out}.partial" if is_joined(arguments) else out


def rejected_file(arguments: argparse.Namespace) -> str:
    """Return the file of rejected rows beside a joined output."""
    return f"{arguments.out.removesuffix(JOINED)}.rejected.jsonl"


def is_joined(arguments: argparse.Namespace) -> bool:
    """Return whether the output is one file, and not a folder of parts."""
    return str(arguments.out).endswith(JOINED)


def copied_columns(arguments: argparse.Namespace) -> list[str]:
    """Return the columns that the output has from the input, the id first."""
    ids = [] if arguments.id_column is None else [arguments.id_column]
    return list(dict.fromkeys([*ids, *arguments.keep_column]))


def text_columns(arguments: argparse.Namespace) -> list[str]:
    """Return the columns of the texts: one, or two of pairs."""
    pair = getattr(arguments, "pair_column", None)
    return [arguments.text_column, *([] if pair is None else [pair])]


def settings_of(
    arguments: argparse.Namespace, source: TableSource, results: Mapping[str, object]
) -> dict[str, object]:
    """Return all on which the output depends; names are those of options, for error messages.

    `results`: those on which the results depend.
    """
    return {
        "input": [[file.name, sum(file.groups), file.digest] for file in source.files],
        "--text-column": arguments.text_column,
        "--id-column or --keep-column": copied_columns(arguments),
        "--part-rows": arguments.part_rows,
        **results,
    }
