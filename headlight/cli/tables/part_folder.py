"""Folder of finished parts, so that a later run can resume.

FOLDER/  _manifest.json            settings and inputs of the job; at the end also its parts
         _lock                     of the process at work, on a disk
         part-00000000.parquet     the vectors of some rows, in order
         _rejected-00000000.jsonl  rows of that part that could not be encoded, with the reasons
         _piece-00000001-00000000-00000512.arrow
                                   rows 0 to 511 of a part that is not finished, and their reasons

A part is written elsewhere, synced and renamed, after its rejected rows. So a part that is there is
whole. Readers of Parquet skip names that begin with "_".

An earlier version, which wrote no pieces, continues such a job: it computes their rows again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fsspec.implementations.local
import pyarrow as pa
import pyarrow.parquet as pq

from headlight.cli.embed.job_checkpoint import ANOTHER_VERSION, lock, other_settings
from headlight.cli.files import OutputError, UsageError

MANIFEST = "_manifest.json"
LOCK = "_lock"
PART = re.compile(r"part-(\d{8})\.parquet")
REJECTED = re.compile(r"_rejected-\d{8}\.jsonl")
PIECE = re.compile(r"_piece-(\d{8})-(\d{8})-(\d{8})\.arrow")
REASONS = b"rejected"  # metadata of a piece
FORMAT = 1  # version of the folder: parts of another version are useless
GROUP_BYTES = 64 * 2**20  # a row group of the joined file


class Piece(NamedTuple):
    """Finished rows of a part.

    Attributes:
        rows: their places in the part.
        table: the output of those that could be encoded.
        rejected: the others, as in their file.
    """

    rows: range
    table: pa.Table
    rejected: Sequence[Mapping[str, object]]


class PartFolder:
    """The parts of one job.

    Attributes:
        name: of the folder, as messages show it.
        is_joined: whether the parts were joined before, and only their removal was interrupted.
        rejected: rows of a finished job that could not be encoded.
    """

    is_joined = False
    rejected = 0

    def __init__(self, name: str) -> None:
        """Name the folder; `opened` creates it."""
        self.name = name
        with self._writing():
            self._fs, self._path = fsspec.core.url_to_fs(name)
        self._local = isinstance(self._fs, fsspec.implementations.local.LocalFileSystem)

    @contextlib.contextmanager
    def opened(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Open the folder for a job, alone if it is local.

        Args:
            settings: of the job, with values as in JSON; names are those of options.

        Raises:
            UsageError: the folder belongs to another job, or another process uses it.
            OutputError: it cannot be written.
        """
        with contextlib.ExitStack() as stack:
            with self._writing():
                if not self._fs.exists(self._path):
                    # With parents, a mistyped bucket would be created.
                    self._fs.mkdir(self._path, create_parents=False)
                if self._local:
                    path = Path(self._join(LOCK))
                    lock(stack.enter_context(path.open("ab")), path)
                self._check(settings)
            yield

    def _check(self, settings: Mapping[str, object]) -> None:
        before = self._manifest()
        if before is None:
            if strangers := self._numbers():
                raise UsageError(
                    f"{self.name}: holds part {strangers[0]} of a job without {MANIFEST}; "
                    "name another --out"
                )
            self._put(MANIFEST, _json({"format": FORMAT, **settings}))
            return
        other = other_settings(before, json.loads(_json({"format": FORMAT, **settings})))
        if "format" in other:
            raise UsageError(f"{self.name}: {ANOTHER_VERSION}")
        if (out := before.get("joined")) is not None:
            if other or not self._fs.exists(self._fs._strip_protocol(out)):
                # Left over from another job, or its output was removed.
                self._remove_all_but(MANIFEST, LOCK)
                self._put(MANIFEST, _json({"format": FORMAT, **settings}))
                return
            self.is_joined = True
            self.rejected = sum(part["rejected"] for part in before["parts"])
        elif other:
            raise UsageError(
                f"{self.name}: was made with another {', '.join(other)}; "
                "remove it to begin anew, or name another --out"
            )

    def done(self) -> set[int]:
        """Return the numbers of the finished parts."""
        with self._writing():
            return set(self._numbers())

    def add(self, number: int, table: pa.Table, rejected: Sequence[Mapping[str, object]]) -> None:
        """Write a part and its rejected rows. Raises OutputError."""
        with self._writing():
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, use_dictionary=_small(table.schema))
            if rejected:
                self._put(_rejected(number), b"".join(_json(row) + b"\n" for row in rejected))
            self._put(_part(number), sink.getvalue().to_pybytes())

    def add_piece(self, number: int, piece: Piece) -> None:
        """Write a piece of a part. Raises OutputError."""
        reasons = {REASONS: _json(piece.rejected)}
        table = piece.table.replace_schema_metadata(reasons)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        with self._writing():
            self._put(_piece(number, piece.rows), sink.getvalue().to_pybytes())

    def piece_rows(self) -> dict[int, list[range]]:
        """Return the rows of the pieces of each part, from its first on, without gaps."""
        with self._writing():
            return self._piece_rows()

    def pieces(self, number: int, saved: Sequence[range]) -> list[Piece]:
        """Return the pieces of a part that have these rows; those behind a damaged one are none."""
        pieces = list[Piece]()
        with self._writing():
            for rows in saved:
                data = self._data(_piece(number, rows))
                try:
                    table = pa.ipc.open_stream(data).read_all()
                    rejected = json.loads(table.schema.metadata[REASONS])
                except (pa.ArrowException, ValueError):
                    break  # half a file of a store: its rows are computed again
                pieces.append(Piece(rows, table, rejected))
        return pieces

    def remove_pieces(self, number: int, saved: Sequence[range]) -> None:
        """Remove the pieces of a finished part. Raises OutputError."""
        if saved:
            with self._writing():
                # One that was damaged may have been written anew under its name.
                names = {_piece(number, rows) for rows in saved}
                self._fs.rm([self._join(name) for name in sorted(names)])

    def kept(self, size: int, rows: int) -> int:
        """Return the number of rows in parts and pieces, of `rows` in parts of `size`."""
        with self._writing():
            done = set(self._numbers())
            pieces = self._piece_rows()
        ends = [ranges[-1].stop for number, ranges in pieces.items() if number not in done]
        return sum(min(size, rows - number * size) for number in done) + sum(ends)

    def _piece_rows(self) -> dict[int, list[range]]:
        """Return the rows of the pieces of each part, from its first on, without gaps."""
        by_part = dict[int, list[range]]()
        for name in sorted(self._names()):
            if of := PIECE.fullmatch(name):
                number, begin, end = map(int, of.groups())
                before = by_part.get(number, [])
                if begin == (before[-1].stop if before else 0):
                    by_part[number] = [*before, range(begin, end)]
        return by_part

    def finish(self, settings: Mapping[str, object], sizes: Sequence[int]) -> tuple[int, int]:
        """Write the list of parts. Return the numbers of rows and of rejected rows.

        Args:
            settings: of the job.
            sizes: rows of each part, rejected ones included.

        Raises:
            OutputError: parts are missing, or the list cannot be written.
        """
        with self._writing():
            self._check_complete(len(sizes))
            sides = self._names()
            if pieces := sorted(filter(PIECE.fullmatch, sides)):  # of a run that was interrupted
                self._fs.rm([self._join(name) for name in pieces])
            parts = list[dict[str, Any]]()
            for number, size in enumerate(sizes):
                name = _rejected(number)
                rejected = len(self._data(name).splitlines()) if name in sides else 0
                parts.append({"file": _part(number), "rows": size - rejected, "rejected": rejected})
            self._put(MANIFEST, _json({"format": FORMAT, **settings, "parts": parts}))
        return sum(part["rows"] for part in parts), sum(part["rejected"] for part in parts)

    def join(self, out: str, rejected_out: str, count: int) -> None:
        """Write all parts into one file, and their rejected rows into another; remove the folder.

        Both files appear whole. Raises OutputError.
        """
        with self._writing(out):
            self._check_complete(count)
            sides = sorted(name for name in self._names() if REJECTED.fullmatch(name))
            path = self._fs._strip_protocol(rejected_out)
            if sides:
                self._replace(path, map(self._data, sides))
            elif self._fs.exists(path):
                self._fs.rm(path)  # of an earlier job
            self._join_parts(out, range(count))
        with self._writing():
            self._put(MANIFEST, _json({**(self._manifest() or {}), "joined": out}))
            self.remove()

    def remove(self) -> None:
        """Remove the folder, the manifest last: if this is interrupted, the next run does it."""
        with self._writing():
            self._remove_all_but(MANIFEST)
            self._fs.rm(self._join(MANIFEST))
            if self._fs.exists(self._path):  # object stores have no empty folders
                self._fs.rmdir(self._path)

    def _remove_all_but(self, *kept: str) -> None:
        if names := sorted(self._names().difference(kept)):
            self._fs.rm([self._join(name) for name in names])

    def _check_complete(self, count: int) -> None:
        missing = sorted(set(range(count)) - set(self._numbers()))
        if missing:
            raise OutputError(
                f"{self.name}: lacks {len(missing)} of {count} parts, the first is {missing[0]}; "
                "another process may use it: give the command again when it has ended"
            )

    def _join_parts(self, out: str, numbers: Sequence[int]) -> None:
        fs, path = fsspec.core.url_to_fs(out)
        if self._local:
            whole, path = self._join("_joined"), os.path.realpath(path)
            with open(whole, "wb") as file:
                self._write_groups(file, numbers)
                file.flush()
                os.fsync(file.fileno())
            os.replace(whole, path)
            _sync_folder(path)
            return
        upload = fs.open(path, "wb", autocommit=False)
        try:
            self._write_groups(upload, numbers)
            upload.close()
            upload.commit()
        except BaseException:
            upload.discard()
            raise

    def _write_groups(self, file: Any, numbers: Sequence[int]) -> None:
        writer: pq.ParquetWriter | None = None
        held: list[pa.Table] = []
        for number in numbers:
            with self._fs.open(self._join(_part(number)), "rb") as part:
                # With threads, a process that has read from s3fs may abort at its exit: 2 of 12
                # did, with "terminate called without an active exception" (pyarrow 26).
                held.append(pq.ParquetFile(part, pre_buffer=False).read(use_threads=False))
            if writer is None:
                schema = held[0].schema
                writer = pq.ParquetWriter(file, schema, use_dictionary=_small(schema))
            if number == numbers[-1] or sum(table.nbytes for table in held) >= GROUP_BYTES:
                group = pa.concat_tables(held)
                writer.write_table(group, row_group_size=max(1, len(group)))
                held = []
        if writer is not None:
            writer.close()

    def _names(self) -> set[str]:
        """Return the names of all files."""
        self._fs.invalidate_cache(self._path)  # other processes may write
        try:
            entries = self._fs.ls(self._path, detail=False)
        except FileNotFoundError:  # object stores have no empty folders
            entries = []
        return {entry.rpartition("/")[2] for entry in entries}

    def _numbers(self) -> list[int]:
        return sorted(int(match[1]) for name in self._names() if (match := PART.fullmatch(name)))

    def _manifest(self) -> dict[str, Any] | None:
        if not self._fs.exists(self._join(MANIFEST)):
            return None
        try:
            manifest = json.loads(self._data(MANIFEST))
        except ValueError:
            manifest = {}
        return manifest if isinstance(manifest, dict) else {}

    def _data(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(self._join(name)))

    def _put(self, name: str, data: bytes) -> None:
        self._replace(self._join(name), [data])

    def _replace(self, path: str, data: Iterable[bytes]) -> None:
        """Write a file that appears whole: renamed if local, else uploaded in one piece."""
        if not self._local:
            self._fs.pipe_file(path, b"".join(data))
            return
        with open(f"{path}.new", "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        _sync_folder(path)

    def _join(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _writing(self, name: str | None = None) -> Iterator[None]:
        """Raise OutputError for what a file system or its driver raises."""
        try:
            yield
        except (UsageError, OutputError, MemoryError):
            raise
        except ImportError as error:
            raise UsageError(f"{name or self.name}: {error}") from None
        except Exception as error:  # drivers have exceptions of their own
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise OutputError(f"{name or self.name}: cannot write it: {reason}") from None


def _sync_folder(path: str) -> None:
    """Sync the folder of a renamed file: else the name may be lost with the power."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _small(schema: pa.Schema) -> list[str]:
    """Return the columns whose values may repeat; those of vectors never do."""
    return [field.name for field in schema if not pa.types.is_fixed_size_list(field.type)]


def _part(number: int) -> str:
    return f"part-{number:08}.parquet"


def _rejected(number: int) -> str:
    return f"_rejected-{number:08}.jsonl"


def _piece(number: int, rows: range) -> str:
    return f"_piece-{number:08}-{rows.start:08}-{rows.stop:08}.arrow"


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode()
