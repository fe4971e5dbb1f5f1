"""Input tables: which rows come in which part, and what is refused."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.cli.files import ReadError, UsageError
from headlight.cli.tables.table_source import TableSource
from tests.headlight.cli.tables.making import texts, write


def bodies(source: TableSource, size: int, wanted: set[int] | None = None) -> dict[int, list[str]]:
    return {
        number: table.column("body").to_pylist()
        for number, table in source.parts(size, lambda part: wanted is None or part in wanted)
    }


@given(
    counts=st.lists(st.integers(0, 23), min_size=1, max_size=4),
    group=st.integers(1, 12),
    size=st.integers(1, 30),
    draw=st.data(),
)
def test_each_wanted_part_has_its_own_rows(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    group: int,
    size: int,
    draw: st.DataObject,
) -> None:
    folder, rows = tmp_path_factory.mktemp("tables"), texts(sum(counts))
    first = 0
    for at, count in enumerate(counts):
        write(folder / f"{at}.parquet", rows[first : first + count], first, group)
        first += count
    source = TableSource([str(folder)], ["body"], ["id"])
    expected = {at: rows[at * size : (at + 1) * size] for at in range(-(-len(rows) // size))}
    assert bodies(source, size) == expected
    wanted = draw.draw(st.sets(st.sampled_from(sorted(expected)))) if expected else set()
    assert bodies(source, size, wanted) == {at: expected[at] for at in sorted(wanted)}


def test_a_folder_and_a_glob_have_the_same_files_and_no_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/2.parquet", "a.parquet", "_old/x.parquet", ".hidden.parquet", "notes.txt"):
        write(tmp_path / "in" / name, texts(3))
    folder = TableSource([str(tmp_path / "in")], ["body"], [])
    assert [Path(file.name).name for file in folder.files] == ["a.parquet", "2.parquet"]
    globbed = TableSource([str(tmp_path / "in/[ab]*"), str(tmp_path / "in/b/*")], ["body"], [])
    assert [file.name for file in globbed.files][-1] == folder.files[1].name
    assert folder.place(4) == (folder.files[1].name, 1)
    with pytest.raises(IndexError):
        folder.place(6)


def test_arrow_files_and_texts_of_a_dictionary_are_read(tmp_path: Path) -> None:
    table = pa.table({"body": pa.array(["a", "b", "a"]).dictionary_encode(), "id": [1, 2, 3]})
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as w,
    ):
        w.write_table(table, max_chunksize=2)
    pq.write_table(table, tmp_path / "t.parquet")
    source = TableSource([str(tmp_path / "t.arrow"), str(tmp_path / "t.parquet")], ["body"], ["id"])
    assert source.files[0].groups == (2, 1)
    assert bodies(source, 4) == {0: ["a", "b", "a", "a"], 1: ["b", "a"]}


def test_a_file_that_was_written_anew_has_another_digest(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", texts(30))
    first = TableSource([str(path)], ["body"], []).files[0].digest
    write(path, texts(30))
    assert TableSource([str(path)], ["body"], []).files[0].digest == first
    write(path, [*texts(29), "another"])
    assert TableSource([str(path)], ["body"], []).files[0].digest != first


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused_at_once(tmp_path: Path, ending: str, share: float) -> None:
    path = write(tmp_path / "t.parquet", texts(100))
    if ending == ".arrow":
        table = pq.read_table(path)
        path = tmp_path / "t.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        UsageError, match=rf"{path}: is no whole Parquet or Arrow file, perhaps trun"
    ):
        TableSource([str(path)], ["body"], [])


def test_a_damaged_row_group_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", texts(100))
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)
    source = TableSource([str(path)], ["body"], [])
    with pytest.raises(UsageError, match=rf"{path}: is no whole Parquet or Arrow file"):
        bodies(source, 10)


def test_a_file_that_is_replaced_during_the_job_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", texts(30))
    source = TableSource([str(path)], ["body"], [])
    write(path, [*texts(29), "another"])
    with pytest.raises(UsageError, match=f"{path}: was replaced during the job; begin anew"):
        bodies(source, 10)


def test_a_store_that_fails_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.parquet", texts(30))

    def fail(*arguments: object, **named: object) -> None:
        raise OSError(errno.EIO, "the store is away")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.open", fail)
    with pytest.raises(ReadError, match=f"{path}: cannot read it: the store is away"):
        TableSource([str(path)], ["body"], [])


def test_a_glob_follows_links(tmp_path: Path) -> None:
    path = write(tmp_path / "blobs/1.parquet", texts(3))
    (tmp_path / "named").mkdir()
    (tmp_path / "named/a.parquet").symlink_to(path)
    assert TableSource([str(tmp_path / "named/*.parquet")], ["body"], []).rows == 3


@pytest.mark.parametrize(
    ("sources", "text", "others", "message"),
    [
        (["none.parquet"], "body", [], "none.parquet: there is no such file; name Parquet or"),
        (["*.feather"], "body", [], r"\*.feather: no file has such a name"),
        (["empty"], "body", [], "empty: has no files that end in .parquet"),
        (["t.parquet"], "text", [], "has no column 'text', or several; its columns are id, body"),
        (["t.parquet"], "body", ["key"], "has no column 'key'"),
        (["t.parquet"], "id", [], "column 'id' is int64, not text; name another by --text-column"),
        (["t.parquet", "u.parquet"], "body", ["id"], "'id' has several types .int64 in .*t.par"),
        (["nowhere://x/y"], "body", [], "nowhere://x/y: .*nowhere"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[str],
    text: str,
    others: list[str],
    message: str,
) -> None:
    write(tmp_path / "t.parquet", texts(3))
    write(tmp_path / "u.parquet", texts(3), id=["a", "b", "c"])
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        TableSource(sources, [text], others)
