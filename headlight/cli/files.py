"""Input and output of the command line: arguments, files, standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from headlight.archive import add_arrays, to_json
from headlight.wire.printable import escaped

STANDARD_INPUT = "standard input"


class UsageError(Exception):
    """What was asked cannot be done; the message says what to change."""


class OutputError(Exception):
    """What was asked was done, and could not be written where it seemed that it could, as on a full disk: another time it may."""


def say(message: str) -> None:
    """One line on standard error, where there is one that can be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"headlight: {escaped(message)}\n")


def say_here(message: str) -> None:
    """The same over the line that a terminal shows, which stays open; "": clear it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{f'headlight: {escaped(message)}'[:width] if message else ''}")
            sys.stderr.flush()


def split_lines(has_texts: bool, file: str | None) -> tuple[str, list[str]]:
    """The name and lines of the file, or of standard input where there is none; the file is at no time whole in memory.

    Raises:
        UsageError: as `opened`, or it is not UTF-8.
    """
    lines, place = list[str](), 0
    with opened(has_texts, file, "texts, one a line") as (name, stream):
        for data in stream:
            line = decode(name, data, place).removesuffix("\n")
            place += len(data)
            if line or data.endswith(b"\n"):  # else there is nothing but a mark of UTF-8
                lines.append(line)
    return name, lines


def read_whole(text: str | None, file: str | None) -> str:
    """One text: the argument, else all of a file, else all of standard input, without the newline at its end.

    Raises:
        UsageError: an argument and a file, or a file that cannot be read.
    """
    if text is not None and file is None:
        return text
    with opened(text is not None, file, "a text") as (name, stream):
        return decode(name, stream.read()).removesuffix("\n")


@contextlib.contextmanager
def opened(has_texts: bool, file: str | None, what: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The name and content of the file, or of standard input where there is none. Raises UsageError where it cannot be read."""
    if has_texts:
        raise UsageError("give texts as arguments or by --file, not both")
    if file is None and sys.stdin is None:
        raise UsageError(f"{STANDARD_INPUT}: is closed; give {what}, as arguments or by --file")
    try:
        if file is None:
            if sys.stdin.isatty():
                say(f"reading {what}, from the keyboard; end with Ctrl-D")
            yield STANDARD_INPUT, sys.stdin.buffer
        else:
            with Path(file).open("rb") as stream:
                yield file, stream
    except OSError as error:
        raise UsageError(f"{file or STANDARD_INPUT}: cannot read it: {error.strerror or error}") from None


def source(arguments: argparse.Namespace) -> str | None:
    """Where texts are read from, by name; None: they are arguments, or there are none."""
    if "file" not in arguments or arguments.file is not None:
        return getattr(arguments, "file", None)
    given = arguments.texts if "texts" in arguments else arguments.text is not None
    return None if given else STANDARD_INPUT


def decode(name: str, data: bytes, place: int = 0) -> str:
    """UTF-8 with line ends of Unix or Windows, from that place of a file. Raises UsageError where it is something else."""
    try:
        return data.decode("utf-8" if place else "utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        mark = len(data) - len(error.object)  # which the codec takes off first
        raise UsageError(f"{name}: not UTF-8 (byte {place + mark + error.start}); convert it first") from None


def write_result(
    arguments: argparse.Namespace,
    text: Callable[[], str],
    json: Callable[[], Mapping[str, object]],
    arrays: Callable[[], Mapping[str, NDArray[Any]]] = dict,
) -> None:
    """Write a result in the form that --format names, to the file of --out or to standard output.

    Args:
        arguments: of the command.
        text: makes the text for people; it gets a newline at its end, unless it is empty.
        json: makes what JSON says.
        arrays: makes the arrays of an archive.
    """
    if arguments.format == "npz":
        named = arrays()
        with (
            writing(arguments.out),
            Path(arguments.out).open("wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            add_arrays(archive, named)
        return
    lines = to_json(json()) if arguments.format == "json" else text()
    ended = f"{lines}\n" if lines else ""
    if arguments.out is None:
        show(ended, arguments.format)
        return
    with writing(arguments.out):
        Path(arguments.out).write_text(ended, encoding="utf-8")


def show(text: str, form: str | None = None) -> None:
    """To standard output at once, all of it, with all that was written before. A reader that left raises BrokenPipeError.

    Args:
        text: any part of the output.
        form: as --format says. JSON is UTF-8 wherever it goes; anything else is what standard output holds, which need not have every
            character.
    """
    if sys.stdout is None:
        return
    file: IO[bytes] | None = getattr(sys.stdout, "buffer", None)
    try:
        if file is None:  # what stands in for it takes texts alone
            sys.stdout.write(text)
        sys.stdout.flush()
        if file is not None:
            # Not through the text layer: without a buffer (PYTHONUNBUFFERED), that writes once, and does not look how much was taken.
            write_all(file, text.encode("utf-8" if form == "json" else sys.stdout.encoding, "replace"))
            file.flush()
    except OSError as error:
        # What is left in the buffer, the interpreter would try to write again when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output: cannot write it: {error.strerror or error}") from None


def write_all(file: IO[bytes], data: bytes) -> None:
    """All of it, also where the file takes some at a time, as it does without a buffer. Raises OSError, as on a full disk."""
    rest = memoryview(data)
    while rest:
        count: int | None = file.write(rest)
        if count is None:  # it does not block, and takes nothing now
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[count:]


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """A block that writes a file which `check_writable` let pass. Raises OutputError where the system refuses it now."""
    try:
        yield
    except BrokenPipeError:
        raise  # a named pipe, whose reader left
    except OSError as error:
        raise OutputError(f"{name}: cannot write it: {error.strerror or error}") from None


def check_writable(option: str, name: str) -> None:
    """Looks whether a file can be written, and leaves it as it is. Raises UsageError where it never can."""
    if not name:
        raise UsageError(f"{option}: is empty; name a file")
    folder = os.path.dirname(os.path.realpath(name))  # of what a link points to, which opening it would make
    if os.path.isdir(name) or name.endswith(os.sep):
        problem = "it is a folder; name a file"
    elif os.path.exists(name):
        problem = "" if os.access(name, os.W_OK) else "it may not be changed"
    elif not os.path.isdir(folder):
        problem = f"there is no folder {folder}"
    else:
        problem = "" if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} may not be changed"
    if problem:
        raise UsageError(f"{name}: cannot write it: {problem}")


def is_same_file(name: str, other: str) -> bool:
    """Whether writing one changes what the other holds. Of a terminal, a pipe or /dev/null, none does."""
    if not os.path.exists(name) or not os.path.exists(other):
        return os.path.realpath(name) == os.path.realpath(other)
    return os.path.isfile(name) and os.path.samefile(name, other)


def screen(out: str | None, environ: Mapping[str, str] = os.environ) -> tuple[int, bool]:
    """Columns to fill, and whether to use colours: only on a terminal, and not where NO_COLOR is set (no-color.org)."""
    terminal = out is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else 100
    return width, terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
