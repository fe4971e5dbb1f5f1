"""What the command line reads and writes: arguments, files, standard input and output."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from headlight.output import write_arrays

T = TypeVar("T")


class UsageError(Exception):
    """What was asked cannot be done; the message says what to change."""


def read_lines(texts: Sequence[str], file: str | None) -> list[str]:
    """Several texts: the arguments, else the lines of a file, else those of standard input.

    Raises:
        UsageError: arguments and a file, a file that cannot be read, or an empty line. (Leaving it out would shift the answers
            against the lines.)
    """
    if texts and file is None:
        return list(texts)
    name, content = read_content(bool(texts), file, "texts, one a line")
    lines = content.removesuffix("\n").split("\n") if content else []
    for number, line in enumerate(lines, 1):
        if not line:
            raise UsageError(f"{name}: line {number} is empty; remove it, or put a text there")
    return lines


def read_whole(text: str | None, file: str | None) -> str:
    """One text: the argument, else all of a file, else all of standard input, without the newline at its end.

    Raises:
        UsageError: an argument and a file, or a file that cannot be read.
    """
    if text is not None and file is None:
        return text
    return read_content(text is not None, file, "a text")[1].removesuffix("\n")


def read_content(has_texts: bool, file: str | None, what: str) -> tuple[str, str]:
    """The name and content of the file, or of standard input where there is none."""
    if has_texts:
        raise UsageError("give texts as arguments or by --file, not both")
    if file is None:
        if sys.stdin.isatty():
            sys.stderr.write(f"headlight: reading {what}, from the keyboard; end with Ctrl-D\n")
        return "standard input", decode("standard input", sys.stdin.buffer.read())
    return file, decode(file, guarded(file, "read", Path(file).read_bytes))


def decode(name: str, data: bytes) -> str:
    """UTF-8 with any kind of line end. Raises UsageError where it is something else."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 (byte {error.start}); convert it first") from None


def write_text(text: str, out: str | None) -> None:
    """To a file, or to standard output; with a newline at the end, unless there is no text at all."""
    ended = f"{text}\n" if text else ""
    if out is None:
        sys.stdout.write(ended)
    else:
        guarded(out, "write", lambda: Path(out).write_text(ended, encoding="utf-8"))


def write_archive(arrays: Mapping[str, NDArray[Any]], out: str) -> None:
    """To a file, under exactly the name given."""

    def write() -> None:
        with Path(out).open("wb") as file:
            write_arrays(arrays, file)

    guarded(out, "write", write)


def guarded(name: str, verb: str, action: Callable[[], T]) -> T:
    """Runs an action on a file. Raises UsageError where the system refuses it."""
    try:
        return action()
    except OSError as error:
        raise UsageError(f"{name}: cannot {verb} it: {error.strerror or error}") from None


def screen(out: str | None, environ: Mapping[str, str] = os.environ) -> tuple[int, bool]:
    """Columns to fill, and whether to use colours: only on a terminal, and not where NO_COLOR is set (no-color.org)."""
    terminal = out is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else 100
    return width, terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
