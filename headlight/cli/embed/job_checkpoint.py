"""Checkpoint of an embedding job: vectors row by row in a folder that a later run finds again, and that one process has for itself.

NAME.partial/  job.json       what the rows are made with; where that differs, they are of no use
               rows           a record of one size for each input in turn: a digest of it, counts of its tokens, vectors, a checksum
               skipped.jsonl  inputs that have no vectors, and why
               output         what becomes of them, until it is whole

Rows are only ever appended. What a killed process leaves is whole but for its last record, which is cut off; so how many there are
is written nowhere. A node that is lost may take pages with it that were not on the disk yet: all from the first row on whose checksum
is another, or that has neither vectors nor a reason for it, is cut off as well. Each record knows its own input, so that lines behind
the rows can still be mended, or added.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headlight.cli.files import UsageError, write_all
from headlight.results import Embeddings
from headlight.wire.client_codec import Input

SKIPPED, OUTPUT, JOB, ROWS = FILES = ("skipped.jsonl", "output", "job.json", "rows")  # in the order of their removal
DIGEST_BYTES = 16
NO_VECTORS = -1  # as a count of tokens: the input was skipped
CHECKSUM = ("checksum", "<u4")  # last: of all before it
READ_AT_ONCE = 2**22  # bytes
FORMAT = 1  # of records and reasons: rows of another are of no use
COUNTS = ("tokens", "prompt_tokens", "original_tokens")


class Rows:
    """What is known of the first inputs of a list.

    Attributes:
        types: of vectors: by name, that of a number, and how many a vector has.
        skipped: by row, why it has no vectors.
        spent: whether they are needed no more, so that a folder of theirs can go.
    """

    spent = False

    def __init__(self, file: BinaryIO, nothing: Embeddings, notes: BinaryIO | None = None) -> None:
        self.types = {str(name): (each.dtype, each.shape[1]) for name, each in nothing.by_type.items()}
        vectors = [(name, dtype, (width,)) for name, (dtype, width) in self.types.items()]
        self._record = np.dtype(
            [("input", f"V{DIGEST_BYTES}"), *((name, "<i8") for name in COUNTS), *vectors, CHECKSUM]
        )
        self._file, self._notes = file, io.BytesIO() if notes is None else notes
        self.skipped = read_notes(self._notes)
        self._count = self._whole()
        file.truncate(self._count * self._record.itemsize)
        # Reasons of rows that did not come to be written stand behind all others.
        self.skipped = {row: why for row, why in self.skipped.items() if row < self._count}
        self._notes.truncate(len(as_lines(self.skipped)))

    def __len__(self) -> int:
        return self._count

    def append(self, inputs: Sequence[Input], found: Embeddings | None, skipped: Mapping[int, str]) -> None:
        """The next rows.

        Args:
            inputs: what they are of.
            found: the vectors of those that are not skipped, in their order; None: all are.
            skipped: by place among the inputs, why there are no vectors.

        Raises:
            OSError: they cannot be written.
        """
        added = np.zeros(len(inputs), self._record)
        added["input"] = np.frombuffer(b"".join(map(digest, inputs)), f"V{DIGEST_BYTES}")
        for name in COUNTS:
            added[name] = NO_VECTORS
        good = [at for at in range(len(inputs)) if at not in skipped]
        if found is not None:
            columns = (found.token_counts, found.prompt_token_counts, found.original_token_counts)
            for name, column in [*zip(COUNTS, columns, strict=True), *found.by_type.items()]:
                added[name][good] = column
        added["checksum"] = checksums(added)
        notes = {self._count + at: why for at, why in sorted(skipped.items())}
        write_all(self._notes, as_lines(notes))  # first: a row that is skipped has its reason
        write_all(self._file, added.tobytes())
        self.skipped |= notes
        self._count += len(inputs)

    def first_other(self, inputs: Sequence[Input]) -> int | None:
        """The first row that is not of the input in its place; None: all are."""
        stored = itertools.chain.from_iterable(records["input"] for records in self._records())
        pairs = enumerate(zip(stored, inputs, strict=False))
        behind = len(inputs) if len(self) > len(inputs) else None
        return next((row for row, (known, item) in pairs if known.tobytes() != digest(item)), behind)

    def counts(self) -> NDArray[np.int64]:
        """int64 [3, N]: tokens encoded, of the prompt alone, before truncation; three times `NO_VECTORS` of what was skipped."""
        parts = (np.stack([records[name] for name in COUNTS]) for records in self._records())
        return np.concatenate([np.zeros((3, 0), np.int64), *parts], axis=1)

    def vectors(self, name: str) -> Iterator[NDArray[Any]]:
        """The vectors of one type, [n, D] at a time: of all rows that have any, in order."""
        for records in self._records():
            yield np.ascontiguousarray(records[name][records["tokens"] != NO_VECTORS])

    def _whole(self) -> int:
        """How many rows there are until the first that is damaged, or was skipped for no known reason."""
        rows = itertools.chain.from_iterable(
            zip(records["checksum"] == checksums(records), records["tokens"], strict=True)
            for records in self._records()
        )
        good = (whole and (count != NO_VECTORS or row in self.skipped) for row, (whole, count) in enumerate(rows))
        return sum(1 for _ in itertools.takewhile(bool, good))

    def _records(self) -> Iterator[NDArray[Any]]:
        """All records, some at a time."""
        self._file.seek(0)
        size = max(1, READ_AT_ONCE // self._record.itemsize) * self._record.itemsize
        rest = b""
        while data := self._file.read(size):
            data = rest + data
            whole = len(data) - len(data) % self._record.itemsize  # a file may give less than it is asked for
            yield np.frombuffer(data[:whole], self._record)
            rest = data[whole:]


def read_notes(file: BinaryIO) -> dict[int, str]:
    """By row, why it was skipped; until the first line that is not whole."""
    found = {}
    file.seek(0)
    for line in file.read().splitlines(keepends=True):
        try:
            row, why = json.loads(line if line.endswith(b"\n") else b"")
        except ValueError:
            break
        found[row] = why
    return found


def checksums(records: NDArray[Any]) -> list[int]:
    """Of each record, all but its last field, which is the checksum."""
    rows = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
    return [zlib.crc32(row) for row in rows[:, : -np.dtype(CHECKSUM[1]).itemsize]]


def as_lines(notes: Mapping[int, str]) -> bytes:
    """Reasons as the file has them."""
    return "".join(f"{json.dumps(note)}\n" for note in notes.items()).encode()


def digest(item: Input) -> bytes:
    """What two inputs share only where they are equal."""
    data = b"text " + item.encode("utf-8", "surrogatepass") if isinstance(item, str) else b"ids " + repr(item).encode()
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


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
