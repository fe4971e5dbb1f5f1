"""Input and output of the command line: arguments, files, standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from headlight.printable import escaped

STANDARD_INPUT = "standard input"
STDIN = "-"  # as a file
PARTIAL = 4  # exit code: done, but inputs were left out


class UsageError(Exception):
    """Command that cannot succeed as given; the message has the change to make."""


class ReadError(Exception):
    """Failed read of an input, for example of an object store; a retry may succeed."""


class OutputError(Exception):
    """Failed write of a result, for example on a full disk; a retry may succeed."""


def say(message: str) -> None:
    """Write one line to standard error, if that is possible."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"headlight: {escaped(message)}\n")


def say_here(message: str) -> None:
    """Overwrite the current line of the terminal on standard error; "" clears it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(
                f"\r\x1b[K{f'headlight: {escaped(message)}'[:width] if message else ''}"
            )
            sys.stderr.flush()


def split_lines(has_texts: bool, file: str | None) -> tuple[str, list[str]]:
    """Return the name and lines of the file, else of standard input.

    The file is read line by line, so its bytes are not held in addition to the lines.

    Raises:
        UsageError: as for `opened`, or the file is not UTF-8.
    """
    lines, place = list[str](), 0
    with opened(has_texts, file, "texts, one a line") as (name, stream):
        for data in stream:
            line = decode(name, data, place).removesuffix("\n")
            place += len(data)
            if line or data.endswith(b"\n"):  # else there is only a byte order mark
                lines.append(line)
    return name, lines


def read_whole(text: str | None, file: str | None) -> str:
    """Return one text: the argument, else a file, else standard input, without a final newline.

    Raises:
        UsageError: both an argument and a file are given, or the file cannot be read.
    """
    if text is not None and file is None:
        return text
    with opened(text is not None, file, "a text") as (name, stream):
        return decode(name, stream.read()).removesuffix("\n")


@contextlib.contextmanager
def opened(has_texts: bool, file: str | None, what: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Open the file, else standard input, with its name. Raises UsageError if it cannot be read."""
    if has_texts:
        raise UsageError("give texts as arguments or by --file, not both")
    file = None if file == STDIN else file
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
        raise UsageError(
            f"{file or STANDARD_INPUT}: cannot read it: {error.strerror or error}"
        ) from None


def source(arguments: argparse.Namespace) -> str | None:
    """Return the name of the source of texts; None: arguments, several files, or none."""
    if "files" in arguments:
        return None if arguments.files else STANDARD_INPUT
    if "file" not in arguments or arguments.file is not None:
        file = getattr(arguments, "file", None)
        return STANDARD_INPUT if file == STDIN else file
    given = arguments.texts if "texts" in arguments else arguments.text is not None
    return None if given else STANDARD_INPUT


def decode(name: str, data: bytes, place: int = 0) -> str:
    """Decode UTF-8 with line ends of Unix or Windows.

    `place` is the byte offset of the data in the file. Raises UsageError for other encodings.
    """
    try:
        return data.decode("utf-8" if place else "utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        mark = len(data) - len(error.object)  # the codec removes a byte order mark first
        raise UsageError(
            f"{name}: not UTF-8 (byte {place + mark + error.start}); convert it first"
        ) from None


def show(text: str, form: str | None = None) -> None:
    """Write a text to standard output and flush it. Raises BrokenPipeError if the reader closed it.

    Args:
        text: any part of the output.
        form: as in --format. JSON is always UTF-8; other forms use the encoding of standard output,
            which may lack characters.
    """
    if sys.stdout is None:
        return
    file: IO[bytes] | None = getattr(sys.stdout, "buffer", None)
    try:
        if file is None:  # a replacement of standard output that accepts only text
            sys.stdout.write(text)
        sys.stdout.flush()
        if file is not None:
            # Not through the text layer: without a buffer (PYTHONUNBUFFERED) it writes once, even
            # if only part was written.
            write_all(
                file, text.encode("utf-8" if form == "json" else sys.stdout.encoding, "replace")
            )
            file.flush()
    except OSError as error:
        # Else the interpreter would write the rest of the buffer again at exit, and report that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output: cannot write it: {error.strerror or error}") from None


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write all of the data, even if an unbuffered file accepts only part at a time.

    Raises OSError, for example on a full disk.
    """
    rest = memoryview(data)
    while rest:
        count: int | None = file.write(rest)
        if count is None:  # the file is non-blocking, and accepts nothing now
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[count:]


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """Raise OutputError if the system refuses to write a file, although `check_writable` passed."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a named pipe closed it
    except OSError as error:
        raise OutputError(f"{name}: cannot write it: {error.strerror or error}") from None


def check_writable(option: str, name: str) -> None:
    """Raise UsageError if a file can never be written. The file is not changed."""
    if not name:
        raise UsageError(f"{option}: is empty; name a file")
    # the folder of a link's target, because opening the link would create the target
    folder = os.path.dirname(os.path.realpath(name))
    if os.path.isdir(name) or name.endswith(os.sep):
        problem = "it is a folder; name a file"
    elif os.path.exists(name):
        problem = "" if os.access(name, os.W_OK) else "it may not be changed"
    elif not os.path.isdir(folder):
        problem = f"there is no folder {folder}"
    else:
        problem = (
            ""
            if os.access(folder, os.W_OK | os.X_OK)
            else f"the folder {folder} may not be changed"
        )
    if problem:
        raise UsageError(f"{name}: cannot write it: {problem}")


def is_same_file(name: str, other: str) -> bool:
    """Return whether writing one changes the other; never for a terminal, a pipe or /dev/null."""
    if not os.path.exists(name) or not os.path.exists(other):
        return os.path.realpath(name) == os.path.realpath(other)
    return os.path.isfile(name) and os.path.samefile(name, other)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width(out: str | None = None) -> int | None:
    """Return the columns of standard output; None: it is no terminal, or a file is written."""
    return shutil.get_terminal_size().columns if out is None and is_terminal() else None


def screen(out: str | None, environ: Mapping[str, str] = os.environ) -> tuple[int, bool]:
    """Return the columns to fill, and whether to use colours.

    Colours are only for a terminal, and not if NO_COLOR is set (no-color.org).
    """
    width = terminal_width(out)
    terminal = width is not None
    return width or 100, terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
