"""Checkpoint of an embedding job: vectors row by row in a folder, so that a later run can resume.

NAME.partial/  job.json       the job's settings; with other settings the rows are useless
               rows           a record of one size for each input: digest, token counts, vectors,
                              checksum
               skipped.jsonl  inputs without vectors, and the reasons
               output         the result while it is written

Only one process uses the folder, and rows are only appended. A killed process leaves whole records
and perhaps part of one, which is cut off, so no file stores the number of rows. A node failure may
lose pages that were not yet on the disk. A row with a wrong checksum, or with neither vectors nor a
reason, is cut off with all rows after it. Each record has the digest of its own input, so input
lines after the rows can still be corrected or added.
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

from headlight.cli.files import UsageError, say, write_all
from headlight.errors import MixedWeights
from headlight.interface.arguments import Input
from headlight.results import Embeddings

# in the order of their removal
SKIPPED, OUTPUT, JOB, ROWS = FILES = ("skipped.jsonl", "output", "job.json", "rows")
DIGEST_BYTES = 16
NO_VECTORS = -1  # as a count of tokens: the input was skipped
CHECKSUM = ("checksum", "<u4")  # the last field, over all fields before it
READ_AT_ONCE = 2**22  # bytes
FORMAT = 1  # version of records and reasons: rows of another version are useless
COUNTS = ("tokens", "prompt_tokens", "original_tokens")
VERSION = "version of this command"
ANOTHER_VERSION = (
    f"was begun by another {VERSION}; finish it with that version, remove it to begin anew, "
    "or name another --out"
)


class Rows:
    """Rows of the first inputs of a list.

    Attributes:
        types: types of vectors by name: the dtype of a number, and the width of a vector.
        skipped: reasons, by row, of the rows without vectors.
        spent: whether the rows are no longer needed, so that their folder can be removed.
    """

    spent = False

    def __init__(self, file: BinaryIO, nothing: Embeddings, notes: BinaryIO | None = None) -> None:
        self.types = {
            str(name): (each.dtype, each.shape[1]) for name, each in nothing.by_type.items()
        }
        vectors = [(name, dtype, (width,)) for name, (dtype, width) in self.types.items()]
        self._record = np.dtype(
            [("input", f"V{DIGEST_BYTES}"), *((name, "<i8") for name in COUNTS), *vectors, CHECKSUM]
        )
        self._file, self._notes = file, io.BytesIO() if notes is None else notes
        self.skipped = read_notes(self._notes)
        self._count = self._whole()
        file.truncate(self._count * self._record.itemsize)
        # A reason is written before its row: the last ones may be of rows that were never written.
        self.skipped = {row: why for row, why in self.skipped.items() if row < self._count}
        self._notes.truncate(len(as_lines(self.skipped)))

    def __len__(self) -> int:
        return self._count

    def append(
        self, inputs: Sequence[Input], vectors: Embeddings | None, skipped: Mapping[int, str]
    ) -> None:
        """Append the next rows.

        Args:
            inputs: inputs of the rows.
            vectors: of the inputs that are not skipped, in order; None: all are skipped.
            skipped: reasons of the skipped inputs, by place among the inputs.

        Raises:
            OSError: they cannot be written.
        """
        added = np.zeros(len(inputs), self._record)
        added["input"] = np.frombuffer(b"".join(map(digest, inputs)), f"V{DIGEST_BYTES}")
        for name in COUNTS:
            added[name] = NO_VECTORS
        good = [at for at in range(len(inputs)) if at not in skipped]
        if vectors is not None:
            columns = (
                vectors.token_counts,
                vectors.prompt_token_counts,
                vectors.original_token_counts,
            )
            for name, column in [*zip(COUNTS, columns, strict=True), *vectors.by_type.items()]:
                added[name][good] = column
        added["checksum"] = checksums(added)
        notes = {self._count + at: why for at, why in sorted(skipped.items())}
        write_all(self._notes, as_lines(notes))  # first, so that a skipped row has its reason
        write_all(self._file, added.tobytes())
        self.skipped |= notes
        self._count += len(inputs)

    def first_other(self, inputs: Sequence[Input]) -> int | None:
        """Return the first row that does not belong to the input in its place; None: all do."""
        stored = itertools.chain.from_iterable(records["input"] for records in self._records())
        pairs = enumerate(zip(stored, inputs, strict=False))
        behind = len(inputs) if len(self) > len(inputs) else None
        return next(
            (row for row, (known, item) in pairs if known.tobytes() != digest(item)), behind
        )

    def counts(self) -> NDArray[np.int64]:
        """Return token counts, int64 [3, N]: encoded, only of the prompt, before truncation.

        All three counts of a skipped row are `NO_VECTORS`.
        """
        parts = (np.stack([records[name] for name in COUNTS]) for records in self._records())
        return np.concatenate([np.zeros((3, 0), np.int64), *parts], axis=1)

    def vectors(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the vectors of one type in blocks [n, D], in order, without the skipped rows."""
        for records in self._records():
            yield np.ascontiguousarray(records[name][records["tokens"] != NO_VECTORS])

    def _whole(self) -> int:
        """Count the rows before the first that is damaged, or skipped without a reason."""
        rows = itertools.chain.from_iterable(
            zip(records["checksum"] == checksums(records), records["tokens"], strict=True)
            for records in self._records()
        )
        good = (
            whole and (count != NO_VECTORS or row in self.skipped)
            for row, (whole, count) in enumerate(rows)
        )
        return sum(1 for _ in itertools.takewhile(bool, good))

    def _records(self) -> Iterator[NDArray[Any]]:
        """Yield all records, in blocks."""
        self._file.seek(0)
        size = max(1, READ_AT_ONCE // self._record.itemsize) * self._record.itemsize
        rest = b""
        while data := self._file.read(size):
            data = rest + data
            # a file may return less than requested
            whole = len(data) - len(data) % self._record.itemsize
            yield np.frombuffer(data[:whole], self._record)
            rest = data[whole:]


def read_notes(file: BinaryIO) -> dict[int, str]:
    """Return the reasons for skipped rows, up to the first incomplete line."""
    notes = {}
    file.seek(0)
    for line in file.read().splitlines(keepends=True):
        try:
            row, why = json.loads(line if line.endswith(b"\n") else b"")
        except ValueError:
            break
        notes[row] = why
    return notes


def checksums(records: NDArray[Any]) -> list[int]:
    """Return the checksum of each record, over all but its last field."""
    rows = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
    return [zlib.crc32(row) for row in rows[:, : -np.dtype(CHECKSUM[1]).itemsize]]


def as_lines(notes: Mapping[int, str]) -> bytes:
    """Encode reasons as lines of the file."""
    return "".join(f"{json.dumps(note)}\n" for note in notes.items()).encode()


def digest(item: Input) -> bytes:
    """Return a digest that only equal inputs share."""
    data = (
        b"text " + item.encode("utf-8", "surrogatepass")
        if isinstance(item, str)
        else b"ids " + repr(item).encode()
    )
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


@contextlib.contextmanager
def opened_rows(
    folder: Path, made_with: Mapping[str, object], nothing: Embeddings
) -> Iterator[Rows]:
    """Open the rows of a folder, which is created if missing.

    The folder is removed at the end if its rows are no longer needed, or if there are none.

    Args:
        folder: path of the folder.
        made_with: the settings of the job, with values as in JSON.
        nothing: the vectors of no inputs, for their types.

    Raises:
        UsageError: the folder belongs to another job, or another process uses it.
        OSError: the folder cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise UsageError(
            f"{folder}: is a file, and a folder of that name holds the finished vectors; "
            "remove it, or name another --out"
        ) from None
    if strangers := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise UsageError(
            f"{folder}: holds {strangers[0]}, which is not a file of a job; choose another --out"
        )
    made_with = {**made_with, VERSION: FORMAT}
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((folder / ROWS).open("a+b", buffering=0))
        lock(file, folder / ROWS)
        notes = stack.enter_context((folder / SKIPPED).open("a+b", buffering=0))
        if file.seek(0, io.SEEK_END):
            check(folder, made_with)
        else:
            with (folder / JOB).open("w", encoding="utf-8") as job:
                job.write(json.dumps(made_with))
                job.flush()
                # before any row can be on the disk: rows are useless without it
                os.fsync(job.fileno())
        rows = Rows(file, nothing, notes)
        try:
            yield rows
        finally:
            if rows.spent or not len(rows):
                # if the removal is interrupted, the next run finds no rows and starts anew
                file.truncate(0)
                # Windows cannot remove an open file, and there is no lock to keep
                if sys.platform == "win32":
                    stack.close()
                remove(folder)


def check(folder: Path, made_with: Mapping[str, object]) -> None:
    """Raise UsageError if the rows of a folder were made with other settings."""
    try:
        before = json.loads((folder / JOB).read_text(encoding="utf-8"))
        other = other_settings(before, made_with)
    except (OSError, ValueError, AttributeError):
        other = [VERSION]
    if VERSION in other:
        raise UsageError(f"{folder}: {ANOTHER_VERSION}")
    if other:
        raise UsageError(
            f"{folder}: holds vectors made with another {', '.join(other)}; "
            "remove it to begin anew, or name another --out"
        )


def other_settings(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of the settings that differ; one that only another version has does."""
    results = ("parts", "joined")  # of a finished job, and no settings
    names = dict.fromkeys([*now, *(name for name in before if name not in results)])
    return [name for name in names if before.get(name) != now.get(name)]


def resume_advice(error: BaseException) -> str:
    """Return the advice after an error that ended a job."""
    # The vectors may be comparable again later: after a rollback, or if only some replicas have the
    # new weights so far.
    mixed = isinstance(error, MixedWeights)
    until = ", once the weights before answer again; else remove it" if mixed else ""
    return f"the same command goes on from there{until}"


def report_kept(count: int, total: int, noun: str, place: str, error: BaseException) -> None:
    """Report, after an error that ended a job, how far it came and how to continue.

    Args:
        count: rows that are kept.
        total: rows of the job.
        noun: what a row is.
        place: where they are kept.
        error: the error.
    """
    done = f"{count:,} of {total:,} {noun}"
    if count:
        say(f"{done} are kept in {place}; {resume_advice(error)}")
    elif isinstance(error, KeyboardInterrupt):
        say(f"{done} were finished; the same command begins anew")


def lock(file: BinaryIO, path: Path) -> None:
    """Lock a file of a job's folder for this process until the file is closed.

    Raises UsageError if another process uses the folder or is removing it.
    """
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 # Windows has no fcntl

    busy = UsageError(
        f"{path.parent}: another process is at work in it; wait for it, or name another --out"
    )
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    except OSError:
        pass  # a file system without locks
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return
    raise busy


def remove(folder: Path) -> None:
    """Remove a folder of rows, and no other files.

    Rows are removed last: a process that starts meanwhile finds them locked.
    """
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
