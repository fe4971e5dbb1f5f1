"""Input tables: Parquet and Arrow files, folders and globs, local or wherever fsspec reads.

Of Parquet, only footers are read at first; of Arrow, all batches are counted. Rows are then read
row group by row group, so memory does not grow with the size of a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from headlight.bulk.table_columns import cast_column, common_type, holds_texts
from headlight.cli.files import ReadError, UsageError

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")
PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"  # at the end, behind the length of the footer
BUFFER_BYTES = 2**20  # read ahead in a column, instead of a whole row group


@dataclasses.dataclass(frozen=True)
class TableFile:
    """One input file.

    Attributes:
        name: as messages show it.
        groups: rows of each row group, or of each record batch of an Arrow file.
        digest: SHA-256 of the size and the footer; of an Arrow file, whose footer has no
            statistics, also of its time or tag. A file that is written anew does not keep it.
        schema: types of all columns.
    """

    name: str
    groups: tuple[int, ...]
    digest: str
    schema: pa.Schema


class TableSource:
    """The rows of all files, in the order of their names.

    Attributes:
        files: the files.
        rows: number of all rows.
        schema: the columns that are read, those of texts first.
    """

    def __init__(self, sources: Sequence[str], texts: Sequence[str], others: Sequence[str]) -> None:
        """Find the files and read their footers.

        Args:
            sources: files, folders and globs; URLs for fsspec.
            texts: the columns of texts.
            others: more columns to read.

        Raises:
            UsageError: a file is missing or damaged, or lacks a column.
            ReadError: a file cannot be read now.
        """
        self._places = [place for source in sources for place in _found(source)]
        self.files = [_read_footer(*place) for place in self._places]
        names = list(dict.fromkeys([*texts, *others]))
        for file in self.files:
            _check_columns(file, names, texts)
        kinds = {
            name: pa.large_string() if name in texts else _common_type(self.files, name)
            for name in names
        }
        self.schema = pa.schema(kinds)
        self.rows = sum(sum(file.groups) for file in self.files)
        try:
            empty = self.schema.empty_table()
            pq.write_table(empty.take(pa.array([], pa.int64())), pa.BufferOutputStream())
        except pa.ArrowException as error:
            raise UsageError(f"--keep-column: a type cannot be written: {error}") from None

    def parts(
        self, size: int, is_missing: Callable[[int], bool]
    ) -> Generator[tuple[int, pa.Table], None, None]:
        """Yield the wanted parts with their numbers: part i has the rows from i * size on.

        Raises:
            UsageError: a file is damaged, or was replaced meanwhile.
            ReadError: a file cannot be read now.
        """
        row, chunks = 0, list[pa.Table]()
        for (fs, path), file in zip(self._places, self.files, strict=True):
            with _reading(file.name), fs.open(path, "rb") as stream:
                reader = _opened(file.name, stream)
                if _digest(fs, path, stream, reader) != file.digest:
                    raise UsageError(f"{file.name}: was replaced during the job; begin anew")
                for group, count in enumerate(file.groups):
                    numbers = range(row // size, -(-(row + count) // size))
                    if not any(map(is_missing, numbers)):
                        row += count
                        continue
                    for batch in _batches(reader, group, self.schema.names, size):
                        for piece in _pieces(_cast(batch, self.schema), row, size):
                            number, row = row // size, row + len(piece)
                            if is_missing(number):
                                chunks.append(piece)
                            if chunks and (row % size == 0 or row == self.rows):
                                yield number, pa.concat_tables(chunks)
                                chunks = []

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and the row's number in it, from 0."""
        for file in self.files:
            if row < (count := sum(file.groups)):
                return file.name, row
            row -= count
        raise IndexError(row)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = map(cast_column, table.columns, schema.types)
    return pa.Table.from_arrays(list(columns), schema=schema)


def _pieces(table: pa.Table, row: int, size: int) -> Iterator[pa.Table]:
    """Yield a table in pieces that end where parts end."""
    at = 0
    while at < len(table):
        count = min(len(table) - at, size - (row + at) % size)
        yield table.slice(at, count)
        at += count


def _found(source: str) -> list[tuple[Any, str]]:
    """Return the files of a source, each with its file system."""
    with _reading(source):
        fs, path = fsspec.core.url_to_fs(source)
        if fs.isdir(path):
            names = [name for name in sorted(fs.find(path)) if _is_table(name[len(path) :])]
            problem = f"has no files that end in {', '.join((*PARQUET, *ARROW))}"
        elif any(sign in path for sign in "*?["):
            entries = fs.glob(path, detail=True)
            names = sorted(name for name, entry in entries.items() if entry["type"] != "directory")
            problem = "no file has such a name"
        else:
            names, problem = [path] if fs.exists(path) else [], "there is no such file"
        if not names:
            raise UsageError(f"{source}: {problem}; name Parquet or Arrow files")
        return [(fs, name) for name in names]


def _is_table(name: str) -> bool:
    """Return whether a name below a folder is a table: not hidden, as for Spark and pyarrow."""
    parts = PurePosixPath(name).parts
    return PurePosixPath(name).suffix in (*PARQUET, *ARROW) and not any(
        part.startswith(("_", ".")) for part in parts
    )


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Raise UsageError for what a file raises, ReadError if another attempt may succeed."""
    try:
        yield
    except (UsageError, MemoryError):
        raise
    except ImportError as error:
        raise UsageError(f"{name}: {error}") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise UsageError(f"{name}: cannot read it: {error.strerror or error}") from None
    except Exception as error:  # drivers have exceptions of their own
        # Arrow raises OSErrors without a number for damaged data.
        if isinstance(error, pa.ArrowException) or (type(error) is OSError and not error.errno):
            raise UsageError(
                f"{name}: is no whole Parquet or Arrow file, perhaps truncated; replace it "
                f"({' '.join(str(error).split()):.200})"
            ) from None
        if isinstance(error, ValueError):  # a URL that no driver knows
            raise UsageError(f"{name}: {error}") from None
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ReadError(f"{name}: cannot read it: {reason}") from None


def _read_footer(fs: Any, path: str) -> TableFile:
    name = path if "file" in _protocols(fs) else fs.unstrip_protocol(path)
    with _reading(name), fs.open(path, "rb") as stream:
        reader = _opened(name, stream)
        if isinstance(reader, pq.ParquetFile):
            metadata = reader.metadata
            groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
            schema = reader.schema_arrow
        else:
            groups = [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)]
            schema = reader.schema
        return TableFile(name, tuple(groups), _digest(fs, path, stream, reader), schema)


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _digest(fs: Any, path: str, stream: IO[bytes], reader: Any) -> str:
    arrow = not isinstance(reader, pq.ParquetFile)
    length_bytes, magic_bytes = 4, len(ARROW_MAGIC if arrow else PARQUET_MAGIC)
    size = stream.seek(0, 2)
    stream.seek(size - length_bytes - magic_bytes)
    length = int.from_bytes(stream.read(length_bytes), "little")
    stream.seek(max(0, size - length_bytes - magic_bytes - length))
    sha256 = hashlib.sha256(stream.read(length) + str(size).encode())
    if arrow:
        info = fs.info(path)
        sha256.update(str(info.get("ETag") or info.get("mtime")).encode())
    return sha256.hexdigest()


def _opened(name: str, stream: IO[bytes]) -> Any:
    """Return a reader; any file that does not end as an Arrow file is read as Parquet."""
    if name.endswith(ARROW):
        return pa.ipc.open_file(stream)
    return pq.ParquetFile(stream, buffer_size=BUFFER_BYTES, pre_buffer=False)


def _batches(reader: Any, group: int, names: Sequence[str], size: int) -> Iterator[pa.Table]:
    if isinstance(reader, pq.ParquetFile):
        batches = reader.iter_batches(size, row_groups=[group], columns=names, use_threads=False)
    else:
        batches = iter([reader.get_batch(group)])
    return (pa.Table.from_batches([batch]).select(names) for batch in batches)


def _check_columns(file: TableFile, names: Sequence[str], texts: Sequence[str]) -> None:
    """Raise UsageError if a file lacks a column, or its texts are none."""
    for name in names:
        if file.schema.get_field_index(name) < 0:
            columns = ", ".join(file.schema.names[:20])
            raise UsageError(
                f"{file.name}: has no column {name!r}, or several; its columns are {columns}"
            )
    for text, option in zip(texts, ("--text-column", "--pair-column"), strict=False):
        kind = file.schema.field(text).type
        if not holds_texts(kind):
            raise UsageError(
                f"{file.name}: column {text!r} is {kind}, not text; name another by {option}"
            )


def _common_type(files: Sequence[TableFile], name: str) -> pa.DataType:
    """Return the type of a column in all files. Raises UsageError if it has several."""
    kinds = {file.schema.field(name).type: file.name for file in reversed(files)}
    common = common_type(kinds)
    if common is None:
        different = "; ".join(f"{kind} in {file}" for kind, file in reversed(kinds.items()))
        raise UsageError(
            f"column {name!r} has several types ({different:.500}); give files of one type"
        )
    return common
