"""One part of a table while its rows are encoded; those of a slow service are saved by time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headlight.cli.files import OutputError
from headlight.cli.tables.part_folder import PartFolder, Piece

PIECE_SECONDS = 10.0  # between two pieces of a part


class GrowingPart:
    """The finished rows of one part.

    Args:
        folder: keeps the part and its pieces.
        number: of the part.
        make: returns the output of the given rows of the part, from their results.
        saved: rows of its pieces in the folder.

    Attributes:
        end: the first row that is not finished.
    """

    def __init__(
        self,
        folder: PartFolder,
        number: int,
        make: Callable[[range, Sequence[Any]], Piece],
        saved: Sequence[range] = (),
    ) -> None:
        self._folder, self._number, self._make = folder, number, make
        self._pieces = folder.pieces(number, saved)
        self._kept = list(saved)
        self._results: list[Any] = []
        self.end = self._begin
        self._saved = time.monotonic()

    def take(self, block: range, results: Any) -> None:
        """Add the next rows of the part, and the results of those that have some; None: no row."""
        if results is not None:
            self._results.append(results)
        self.end = block.stop

    def save_in_time(self) -> None:
        """Save a piece if the last one was long ago. Raises OutputError."""
        if time.monotonic() - self._saved >= PIECE_SECONDS:
            self._save()

    @contextlib.contextmanager
    def saved_on_error(self) -> Iterator[None]:
        """Save a piece if the block raises an error."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(OutputError):  # the first error is the one to report
                self._save()
            raise

    def finish(self, metadata: dict[str, str]) -> None:
        """Write the part, of which all rows were taken. Raises OutputError."""
        if not self._pieces or self._begin < self.end:
            self._cut()
        table = pa.concat_tables([piece.table.replace_schema_metadata() for piece in self._pieces])
        rejected = [row for piece in self._pieces for row in piece.rejected]
        self._folder.add(self._number, table.replace_schema_metadata(metadata), rejected)
        self._folder.remove_pieces(self._number, self._kept)

    @property
    def _begin(self) -> int:
        """The first row that is in no piece."""
        return self._pieces[-1].rows.stop if self._pieces else 0

    def _save(self) -> None:
        if self._begin < self.end:
            self._cut()
            self._folder.add_piece(self._number, self._pieces[-1])
            self._kept.append(self._pieces[-1].rows)
        self._saved = time.monotonic()

    def _cut(self) -> None:
        """Make a piece of the rows since the last one."""
        self._pieces.append(self._make(range(self._begin, self.end), self._results))
        self._results = []
