"""Checkpoint of an embedding job: a folder that a later run finds again, and that one process has for itself.

NAME.partial/  job.json             what the rows are made with; where that differs, they are of no use
               rows, skipped.jsonl  see headlight.cli.embed.vector_rows
               output               what becomes of them, until it is whole
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from headlight.cli.embed.vector_rows import FORMAT, Rows
from headlight.cli.files import UsageError
from headlight.embeddings import Embeddings

SKIPPED, OUTPUT, JOB, ROWS = FILES = ("skipped.jsonl", "output", "job.json", "rows")  # in the order of their removal


@contextlib.contextmanager
def kept_in(folder: Path, made_with: Mapping[str, object], nothing: Embeddings) -> Iterator[Rows]:
    """The rows of a folder, which is made where there is none, and removed at the end where its rows are spent, or there are none.

    Args:
        folder: its name.
        made_with: all that vectors depend on beside their inputs, as JSON has it.
        nothing: the vectors of no inputs, for their types.

    Raises:
        UsageError: it is of another job, or another process is at work in it.
        OSError: it cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise UsageError(
            f"{folder}: is no folder, and vectors are kept in it; remove it, or name another --out"
        ) from None
    if strangers := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise UsageError(f"{folder}: holds {strangers[0]}, which is not of a job; name another --out")
    made_with = {**made_with, "version of this command": FORMAT}
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((folder / ROWS).open("a+b", buffering=0))
        lock(file, folder)
        notes = stack.enter_context((folder / SKIPPED).open("a+b", buffering=0))
        if file.seek(0, io.SEEK_END):
            check(folder, made_with)
        else:
            with (folder / JOB).open("w", encoding="utf-8") as job:
                job.write(json.dumps(made_with))
                job.flush()
                os.fsync(job.fileno())  # before any row can be on the disk: rows are of no use without it
        rows = Rows(file, nothing, notes)
        try:
            yield rows
        finally:
            if rows.spent or not len(rows):
                file.truncate(0)  # without rows, what is left of a folder whose removal was cut short is begun anew
                if sys.platform == "win32":  # where nothing that is open can be removed, and nothing is locked
                    stack.close()
                remove(folder)


def check(folder: Path, made_with: Mapping[str, object]) -> None:
    """Raises UsageError where the rows of a folder were made with something else."""
    try:
        before = json.loads((folder / JOB).read_text(encoding="utf-8"))
        other = [name for name, value in made_with.items() if before.get(name) != value]
    except (OSError, ValueError, AttributeError):
        other = ["version of this command"]
    if other:
        raise UsageError(
            f"{folder}: holds vectors made with another {', '.join(other)}; remove it to begin anew, or name another --out"
        )


def lock(file: BinaryIO, folder: Path) -> None:
    """Rows for this process alone, until the file is closed. Raises UsageError where another has them, or had, and removes them."""
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 # there is none on Windows

    busy = UsageError(f"{folder}: another process is at work in it; wait for it, or name another --out")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    except OSError:
        pass  # a file system without locks
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), (folder / ROWS).stat()):
            return
    raise busy


def remove(folder: Path) -> None:
    """A folder of rows, and nothing that somebody else put there. Rows last: whoever comes meanwhile finds them locked."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
