"""Job over a table: parts are read, encoded and written, two at once."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from headlight.bulk.row_blocks import BlockSize, JobRetries, check_weights, encode_blocks
from headlight.bulk.signals import result_of, undisturbed
from headlight.bulk.table_columns import read_pairs, read_texts, value_of
from headlight.cli.embed.progress import Progress
from headlight.cli.error_advice import reworded
from headlight.cli.tables.growing_part import GrowingPart
from headlight.cli.tables.part_folder import PartFolder, Piece
from headlight.cli.tables.row_results import Made, RowResults
from headlight.cli.tables.table_source import TableSource
from headlight.interface.arguments import Input
from headlight.results import ModelRef
from headlight.spec import EmptyTexts

# While one part waits for its last blocks, the next one keeps the encoder busy. It also reads and
# tokenises beside the computing.
PARTS_AT_ONCE = 2


class PartEncoder:
    """Encodes the rows of one part.

    The blocks of a part depend on nothing else. So an encoder in this process returns the same bits
    in each run.

    Args:
        encode: returns the results of some texts or pairs.
        ref: the weights that must have made all of them.
        retries: retry policy for an unavailable service.
        block: size of a call.
        at_once: calls in flight.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[Input]], Made],
        ref: ModelRef,
        *,
        retries: JobRetries,
        block: BlockSize,
        at_once: int | None,
    ) -> None:
        self._encode, self._ref = encode, ref
        self._options: dict[str, Any] = {"retries": retries, "block": block, "at_once": at_once}

    def __call__(
        self,
        texts: Sequence[Input],
        problems: dict[int, str],
        first: int,
        take: Callable[[range, Any], None],
    ) -> None:
        """Encode the texts from place `first` on.

        Args:
            texts: of the part, or pairs.
            problems: the reasons, by place, of rows without a text; those of refused texts are
                added.
            first: the first place to encode.
            take: receives places, in order, and the results of the good texts among them.

        Raises:
            HeadlightError: as `encode`, unless it names a text.
        """

        def checked(block: range, some: Made | None) -> None:
            if some is not None:
                check_weights(self._ref, some.model)
            take(block, some)

        encode_blocks(
            texts,
            problems,
            self._encode,
            checked,
            stop=lambda: None,  # `TableJob.run` does
            skip=True,
            first=first,
            reword=reworded,
            **self._options,
        )


class TableJob:
    """Encodes the missing parts of a table into a folder.

    Args:
        source: the input.
        folder: of the parts, opened.
        encode: encodes the texts of a part.
        results: what is added to each row.
        texts: the columns of texts.
        copied: the columns that the output has too.
        identity: the column that names a rejected row; None: its number.
        metadata: of the output.
        pieces: whether to save rows of unfinished parts. (In this process they would change the
            batches of the rows after them, and so the last bits of those.)
    """

    def __init__(
        self,
        source: TableSource,
        folder: PartFolder,
        encode: PartEncoder,
        results: RowResults[Any],
        *,
        texts: Sequence[str],
        empty_texts: EmptyTexts | None,
        copied: Sequence[str],
        identity: str | None,
        metadata: Mapping[str, str],
        pieces: bool,
    ) -> None:
        self._source, self._folder, self._encode = source, folder, encode
        self._results, self._texts, self._copied = results, texts, copied
        self._identity, self._metadata, self._saves = identity, dict(metadata), pieces
        self._empty_texts = empty_texts

    def run(self, size: int, progress: Progress, stop: Callable[[], None]) -> None:
        """Encode and write the missing parts.

        Args:
            size: rows of a part.
            progress: receives the number of finished rows.
            stop: ends the calls in flight.

        Raises:
            HeadlightError, OutputError: finished parts and pieces are kept.
            UsageError: an input file is damaged.
        """
        done, rows = self._folder.done(), self._source.rows
        saved = self._folder.piece_rows() if self._saves else {}
        progress.begin(self._folder.kept(size, rows))
        pending = deque[Future[None]]()
        pool = ThreadPoolExecutor(PARTS_AT_ONCE)
        if not rows and not done:
            # so that there is a schema
            self._part(0, 0, self._source.schema.empty_table(), progress, ())
        missing = self._source.parts(size, lambda part: part not in done)
        # Closed here, also after Ctrl-C: otherwise the open file waits for the garbage collector.
        with _stopping(pool, stop), contextlib.closing(missing) as parts:
            for number, table in parts:
                pieces = saved.get(number, ())
                pending.append(
                    pool.submit(self._part, number, number * size, table, progress, pieces)
                )
                if len(pending) > PARTS_AT_ONCE:  # one is read ahead
                    result_of(pending.popleft(), None)
            for future in pending:
                result_of(future, None)

    def _part(
        self,
        number: int,
        first: int,
        table: pa.Table,
        progress: Progress,
        saved: Sequence[range],
    ) -> None:
        """Encode and write one part, whose first row has the given number."""
        texts, problems = self._read(table)

        def make(rows: range, results: Sequence[Any]) -> Piece:
            good = [at for at in rows if at not in problems]
            rejected = [
                self._rejected(first, at, table, problems[at]) for at in rows if at in problems
            ]
            return Piece(rows, self._output(table, first, good, results), rejected)

        part = GrowingPart(self._folder, number, make, saved)

        def take(block: range, results: Any) -> None:
            part.take(block, results)
            progress.add(len(block))
            if self._saves:
                part.save_in_time()

        with part.saved_on_error() if self._saves else contextlib.nullcontext():
            self._encode(texts, problems, part.end, take)
        part.finish(self._metadata)

    def _read(self, table: pa.Table) -> tuple[Sequence[Input], dict[int, str]]:
        columns = [table.column(name) for name in self._texts]
        if len(columns) == 1:
            return read_texts(columns[0], self._empty_texts)
        names = self._texts[0], self._texts[1]
        return read_pairs(columns[0], columns[1], names, self._empty_texts)

    def _output(
        self, table: pa.Table, first: int, good: Sequence[int], blocks: Sequence[Any]
    ) -> pa.Table:
        places = np.array(good, np.int64)
        columns = {} if self._identity is not None else {"row": pa.array(places + first)}
        columns |= {name: table.column(name).take(places) for name in self._copied}
        return pa.table(columns | self._results.columns(blocks))

    def _rejected(self, first: int, at: int, table: pa.Table, why: str) -> dict[str, object]:
        file, row = self._source.place(first + at)
        name = {}
        if self._identity is not None:
            name = {"id": value_of(table.column(self._identity)[at])}
        return {**name, "row": first + at, "file": file, "file_row": row, "error": why}


@contextlib.contextmanager
def _stopping(pool: ThreadPoolExecutor, stop: Callable[[], None]) -> Iterator[None]:
    """Shut a pool down at the end; after an error, stop what its threads wait for."""
    try:
        yield
    except BaseException:
        with undisturbed():
            stop()
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
