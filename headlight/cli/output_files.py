"""Output of a command: format by the ending of a file, checks before the work, report after it."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headlight.archive import add_arrays, to_json
from headlight.cli.files import (
    STANDARD_INPUT,
    UsageError,
    check_writable,
    is_same_file,
    say,
    show,
    source,
    writing,
)

# Endings of --out, and the format that each means.
SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npz": "npz",
    ".npy": "npy",
    ".parquet": "parquet",
}
# Endings of files that have one form.
DRAWN = {"--png": (".png",), "--html": (".html", ".htm")}
BINARY = ("npz", "npy", "parquet")
WRITTEN = ("--out", "--png", "--html")
READ = ("--file", "--token-file", "--tls-ca", "--tls-cert", "--tls-key")


def check_output(arguments: argparse.Namespace) -> None:
    """Settle the format, and check each output before the service works for it.

    Raises:
        UsageError: an output cannot be written, or its name contradicts its format.
    """
    if getattr(arguments, "text_column", None) is not None:
        return  # a table's output may be a folder or a URL: headlight.cli.tables.table_options
    if arguments.out is not None:
        arguments.format = format_of(arguments.out, arguments.format, arguments.formats)
    if arguments.format in BINARY and arguments.out is None:
        raise UsageError(f"--format {arguments.format} is binary: name a file by --out")
    others = named(arguments, READ) + [("FILE", name) for name in getattr(arguments, "files", ())]
    if source(arguments) == STANDARD_INPUT:
        others.append((STANDARD_INPUT, "/dev/stdin"))
    for option, name in named(arguments, WRITTEN):
        check_writable(option, name)
        for other, beside in others:
            if is_same_file(name, beside):
                raise UsageError(
                    f"{option}: {name} is the file of {other}, which it would replace; name another"
                )
        others.append((option, name))
    for option, name in named(arguments, tuple(DRAWN)):
        check_drawn(option, name)
    if arguments.out is None and sys.stdout is None and not draws_alone(arguments):
        raise UsageError("standard output: is closed; name a file by --out")


def format_of(out: str, requested: str | None, formats: Sequence[str]) -> str:
    """Return the format of a file by its ending; without one, the default is the first.

    Args:
        out: the file.
        requested: by --format.
        formats: of the command.

    Raises:
        UsageError: the ending has another format than --format, or none of this command.
    """
    suffix = Path(out).suffix.lower()
    meant = SUFFIXES.get(suffix)
    if requested is not None and meant in (None, requested):
        return requested
    if not suffix:
        return formats[0]
    if requested is not None:
        ending = next(each for each, form in SUFFIXES.items() if form == requested)
        raise UsageError(
            f"--format {requested}: {out} ends in {suffix}; "
            f"name a file that ends in {ending}, or leave out --format"
        )
    if meant is None or meant not in formats:
        accepted = ", ".join(each for each, form in SUFFIXES.items() if form in formats)
        raise UsageError(
            f"--out: {out} ends in {suffix}; end it in {accepted}, or name its format by --format"
        )
    return meant


def check_drawn(option: str, name: str) -> None:
    """Raise UsageError for a picture or a page whose name says something else."""
    accepted = DRAWN.get(option, ())
    pipe = os.path.exists(name) and not os.path.isfile(name)
    if accepted and not pipe and Path(name).suffix.lower() not in accepted:
        raise UsageError(f"{option}: {name} must end in {' or '.join(accepted)}")


def named(arguments: argparse.Namespace, options: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options that name a file, and the file."""
    names = (
        (option, getattr(arguments, option.removeprefix("--").replace("-", "_"), None))
        for option in options
    )
    return [(option, name) for option, name in names if name is not None]


def draws_alone(arguments: argparse.Namespace) -> bool:
    """Return whether only a picture or a page is requested."""
    drawn = any(getattr(arguments, name, None) for name in ("png", "html", "open"))
    return drawn and arguments.format is None and arguments.out is None


def write_result(
    arguments: argparse.Namespace,
    what: str,
    text: Callable[[], str],
    json: Callable[[], Mapping[str, object]],
    arrays: Callable[[], Mapping[str, NDArray[Any]]] = dict,
) -> None:
    """Write a result in the form of --format, to the file of --out or to standard output.

    Args:
        arguments: of the command.
        what: the result in words, for the report of a file.
        text: makes the text for people; it gets a final newline, unless it is empty.
        json: makes the JSON object.
        arrays: makes the arrays of an archive.
    """
    if arguments.format == "npz":
        entries = arrays()
        with (
            writing(arguments.out),
            Path(arguments.out).open("wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            add_arrays(archive, entries)
        say_written(arguments.out, what)
        return
    lines = to_json(json()) if arguments.format == "json" else text()
    ended = f"{lines}\n" if lines else ""
    if arguments.out is None:
        show(ended, arguments.format)
        return
    with writing(arguments.out):
        Path(arguments.out).write_text(ended, encoding="utf-8")
    say_written(arguments.out, what)


def say_written(name: str, what: str) -> None:
    """Report a file that was written, and its size. A pipe or a device has none to report."""
    if os.path.isfile(name):
        say(f"wrote {name}: {what}, {size_text(os.path.getsize(name))}")


def size_text(size: int) -> str:
    """Return a number of bytes for people, as "2.3 kB"."""
    if size < 1000:
        return count_text(size, "byte")
    units = ("kB", "MB", "GB", "TB")
    power = next((at for at in range(4) if size < 999_950 * 1000**at), 3)
    return f"{size / 1000 ** (power + 1):,.1f} {units[power]}"


def count_text(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun, as "1 vector" or "2 vectors"."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
