"""Rows recovered from an earlier process, with intact, damaged or missing files."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headlight.cli.embed.job_checkpoint import ROWS, Rows, lock, opened_rows
from headlight.cli.files import UsageError
from headlight.results import Embeddings, ModelRef

MODEL = ModelRef("fake", "1", "ab" * 32, "cpu", "fp32")
INPUTS = [f"text {number}" for number in range(8)]
# In the order of detection: empty texts before those that the service refuses.
SKIPPED = {5: "is empty", 2: "is too long"}


def found(count: int, dimensions: int = 3) -> Embeddings:
    """Return nonzero vectors and counts."""
    counts = np.arange(1, count + 1)
    vectors = np.arange(1, count * dimensions + 1, dtype=np.float32).reshape(count, dimensions)
    return Embeddings({"float32": vectors}, counts, counts, counts, MODEL)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Rows]:
    with opened_rows(folder, {"--truncate": "no"}, found(0)) as rows:
        yield rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder with rows of all inputs."""
    folder = tmp_path / "v.partial"
    with opened(folder) as rows:
        rows.append(INPUTS, found(len(INPUTS) - len(SKIPPED)), SKIPPED)
    return folder


def cut_rows(folder: Path, rows: int) -> None:
    """Truncate the rows to a number, and a part of the next."""
    path = folder / "rows"
    os.truncate(path, rows * path.stat().st_size // len(INPUTS) + 3)


def test_kept_rows_keep_their_error_reasons(folder: Path) -> None:
    with opened(folder) as rows:
        assert (len(rows), rows.skipped) == (8, SKIPPED)
    cut_rows(folder, 4)
    for _ in range(2):
        with opened(folder) as rows:
            assert (len(rows), rows.skipped) == (4, {2: "is too long"})
    with opened(folder) as rows:
        rows.append(INPUTS[4:], found(3), {1: "is empty now"})
    with opened(folder) as rows:
        assert (len(rows), rows.skipped) == (8, {2: "is too long", 5: "is empty now"})


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "v.partial"
    path.touch()
    with (
        pytest.raises(
            UsageError, match=r"v\.partial: is a file, .*; remove it, or name another --out"
        ),
        opened(path),
    ):
        pass


@pytest.mark.parametrize("lost", [b"", b"\0" * 40, b"\0" * 40 + b"\n"])
def test_a_row_without_vectors_or_a_reason_is_computed_again(folder: Path, lost: bytes) -> None:
    notes = folder / "skipped.jsonl"
    first = notes.read_bytes().splitlines(keepends=True)[0]
    notes.write_bytes(first + lost)
    with opened(folder) as rows:
        assert (len(rows), rows.skipped) == (5, {2: "is too long"})
        rows.append(INPUTS[5:], found(3), {})
        assert [len(vectors) for vectors in rows.vectors("float32")] == [7]
    assert notes.read_bytes() == first


@pytest.mark.parametrize("removed", range(4))
def test_a_partly_removed_folder_is_started_afresh(
    folder: Path, removed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, unlink = [removed], Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt), opened(folder) as rows:
            rows.spent = True
    with opened(folder) as rows:
        assert (len(rows), rows.skipped) == (0, {})


def test_a_job_started_during_removal_uses_none_of_the_removed_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, refused = Path.unlink, list[str]()

    def come(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.name != ROWS:  # its removal has left no trace for another process
            with (
                pytest.raises(UsageError, match="another process is at work in it"),
                opened(folder),
            ):
                pass
            refused.append(path.name)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", come)
        with opened(folder) as rows:
            rows.spent = True
    assert refused == ["skipped.jsonl", "output", "job.json"]
    assert not folder.exists()


@pytest.mark.parametrize("first", [0, 12, 20, 45])  # within the digest, the counts, the vectors
def test_rows_with_a_lost_page_are_computed_again(folder: Path, first: int) -> None:
    path = folder / "rows"
    before = path.read_bytes()
    size = len(before) // len(INPUTS)
    lost = slice(6 * size + first, 7 * size)
    path.write_bytes(before[: lost.start] + bytes(lost.stop - lost.start) + before[lost.stop :])
    with opened(folder) as rows:
        assert (len(rows), rows.first_other(INPUTS)) == (6, None)
        assert path.read_bytes() == before[: 6 * size]


@pytest.mark.skipif(sys.platform == "win32", reason="locks")
def test_a_job_does_not_start_in_a_folder_removed_by_a_finishing_job(tmp_path: Path) -> None:
    """The other job opened the lock file before its removal."""
    folder = tmp_path / "v.partial"
    with contextlib.ExitStack() as stack:
        with opened(folder) as rows:
            other = stack.enter_context((folder / ROWS).open("a+b"))
            rows.append(INPUTS[:1], found(1), {})
            rows.spent = True
        assert not folder.exists()
        with pytest.raises(UsageError, match="another process is at work in it"):
            lock(other, folder / ROWS)
