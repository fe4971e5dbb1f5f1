"""Folder of finished parts, on a disk and on a remote file system."""

from __future__ import annotations

import errno
import json
import os
import uuid
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headlight.cli.files import OutputError, UsageError
from headlight.cli.tables.growing_part import GrowingPart
from headlight.cli.tables.part_folder import PartFolder, Piece

SETTINGS = {"--text-column": "body", "input": [["a", 3]]}
BAD = {"id": 7, "row": 7, "file": "a", "file_row": 7, "error": "has no text"}


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a folder, or a URL of fsspec's file system in memory."""
    return str(tmp_path) if request.param == "disk" else f"memory://{uuid.uuid4()}"


def part(*numbers: int) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(n) for n in numbers] * 2), 2)
    return pa.table({"id": list(numbers), "embedding": vectors}).replace_schema_metadata({"k": "v"})


def table_of(name: str) -> pa.Table:
    with fsspec.open(name, "rb") as file:
        return pq.read_table(file)


def test_parts_are_joined_in_order_with_their_metadata(place: str) -> None:
    folder = PartFolder(f"{place}/v.parquet.partial")
    with folder.opened(SETTINGS):
        folder.add(1, part(4, 5), [BAD])
        folder.add(0, part(1, 2, 3), [])
        assert folder.done() == {0, 1}
    with PartFolder(folder.name).opened(SETTINGS):
        assert folder.finish(SETTINGS, [3, 3]) == (5, 1)
        folder.join(f"{place}/v.parquet", f"{place}/v.rejected.jsonl", 2)
    table = table_of(f"{place}/v.parquet")
    assert table.column("id").to_pylist() == [1, 2, 3, 4, 5]
    assert table.schema.metadata[b"k"] == b"v"
    with fsspec.open(f"{place}/v.rejected.jsonl", "rb") as file:
        assert json.loads(file.read()) == BAD
    fs, path = fsspec.core.url_to_fs(place)
    assert {name.rpartition("/")[2] for name in fs.find(path)} == {
        "v.parquet",
        "v.rejected.jsonl",
    }


def test_a_finished_folder_lists_its_parts_and_is_read_as_one_table(tmp_path: Path) -> None:
    folder = PartFolder(str(tmp_path / "out"))
    with folder.opened(SETTINGS):
        folder.add(0, part(1, 2), [BAD])
        folder.add(1, part(3), [])
        folder.finish(SETTINGS, [3, 1])
    manifest = json.loads((tmp_path / "out/_manifest.json").read_text())
    assert manifest["parts"] == [
        {"file": "part-00000000.parquet", "rows": 2, "rejected": 1},
        {"file": "part-00000001.parquet", "rows": 1, "rejected": 0},
    ]
    assert pq.read_table(tmp_path / "out").column("id").to_pylist() == [1, 2, 3]
    with PartFolder(folder.name).opened(SETTINGS):  # a finished job may be run again
        assert folder.done() == {0, 1}


def test_a_folder_that_lacks_parts_is_not_joined(place: str) -> None:
    """Another process may have joined and removed them."""
    folder = PartFolder(f"{place}/v.parquet.partial")
    with folder.opened(SETTINGS):
        folder.add(1, part(1), [])
        message = "v.parquet.partial: lacks 2 of 3 parts, the first is 0; another process may use"
        with pytest.raises(OutputError, match=message):
            folder.finish(SETTINGS, [1, 1, 1])
        with pytest.raises(OutputError, match=message):
            folder.join(f"{place}/v.parquet", f"{place}/v.rejected.jsonl", 3)
    fs, path = fsspec.core.url_to_fs(f"{place}/v.parquet")
    assert not fs.exists(path)


def test_an_interrupted_removal_is_completed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PartFolder(f"{place}/v.parquet.partial")
    rejected = f"{place}/v.rejected.jsonl"
    with folder.opened(SETTINGS):
        folder.add(0, part(1, 2), [BAD])
        folder.finish(SETTINGS, [3])
        with monkeypatch.context() as patch:
            patch.setattr(PartFolder, "remove", interrupted)
            with pytest.raises(KeyboardInterrupt):
                folder.join(f"{place}/v.parquet", rejected, 1)
    later = PartFolder(folder.name)
    with later.opened(SETTINGS):
        assert later.is_joined
        later.remove()
    fs, path = fsspec.core.url_to_fs(place)
    found = {name.rpartition("/")[2] for name in fs.find(path)}
    assert found == {"v.parquet", "v.rejected.jsonl"}
    assert not fs.exists(f"{path}/v.parquet.partial")


def interrupted(folder: PartFolder) -> None:
    raise KeyboardInterrupt


def test_the_rejected_rows_of_an_earlier_job_do_not_stay(place: str) -> None:
    rejected = f"{place}/v.rejected.jsonl"
    fs, path = fsspec.core.url_to_fs(rejected)
    for rows in ([BAD], []):
        folder = PartFolder(f"{place}/v.parquet.partial")
        with folder.opened(SETTINGS):
            folder.add(0, part(1), rows)
            folder.join(f"{place}/v.parquet", rejected, 1)
        assert fs.exists(path) == bool(rows)


def test_another_job_is_refused_and_the_option_named(place: str) -> None:
    folder = PartFolder(f"{place}/out")
    with folder.opened(SETTINGS):
        folder.add(0, part(1), [])
    other = {**SETTINGS, "--text-column": "title"}
    message = "out: was made with another --text-column; remove it to begin anew, or name another"
    with pytest.raises(UsageError, match=message), folder.opened(other):
        pass
    with folder.opened(SETTINGS):
        assert folder.done() == {0}


def test_parts_without_a_manifest_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "part-00000003.parquet").write_bytes(b"mine")
    with (
        pytest.raises(
            UsageError, match=r"holds part 3 of a job without _manifest.json; name anoth"
        ),
        PartFolder(str(tmp_path)).opened(SETTINGS),
    ):
        pass
    assert (tmp_path / "part-00000003.parquet").read_bytes() == b"mine"


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    folder = PartFolder(str(tmp_path / "out"))
    with (
        folder.opened(SETTINGS),
        pytest.raises(UsageError, match="out: another process is at work in it; wait for it"),
        PartFolder(folder.name).opened(SETTINGS),
    ):
        pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_failed_write_leaves_no_part_and_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    folder = PartFolder(str(tmp_path / "out"))

    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with folder.opened(SETTINGS):
        folder.add(0, part(1), [])
        with monkeypatch.context() as patch:
            patch.setattr("headlight.cli.tables.part_folder.os.fsync", fail)
            with pytest.raises(OutputError, match=f"out: cannot write it: {os.strerror(code)}"):
                folder.add(1, part(2), [BAD])
        assert folder.done() == {0}
        folder.add(1, part(2), [])  # later there is room
        assert folder.finish(SETTINGS, [1, 1]) == (2, 0)


def test_a_damaged_manifest_is_another_job(tmp_path: Path) -> None:
    (tmp_path / "_manifest.json").write_text("{")
    with (
        pytest.raises(UsageError, match="was begun by another version of this command; finish it"),
        PartFolder(str(tmp_path)).opened(SETTINGS),
    ):
        pass


def test_a_damaged_piece_is_made_anew_and_goes_with_its_part(place: str) -> None:
    folder = PartFolder(f"{place}/v.parquet.partial")
    with folder.opened(SETTINGS):
        folder.add_piece(0, Piece(range(3), part(1, 2, 3), [BAD]))
        [name] = [each for each in folder._names() if "_piece" in each]
        folder._put(name, b"half a file")
        growing = GrowingPart(
            folder, 0, lambda rows, _: Piece(rows, part(1, 2, 3), [BAD]), folder.piece_rows()[0]
        )
        assert growing.end == 0
        growing.take(range(3), None)
        with pytest.raises(KeyboardInterrupt), growing.saved_on_error():
            raise KeyboardInterrupt
        growing.finish({})
        assert (folder.done(), folder.piece_rows()) == ({0}, {})
