"""`headlight embed --text-column`, against a fake service and in this process."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headlight import Client
from headlight.bulk.table_columns import EMPTY, NULL
from headlight.cli.commands import main
from headlight.cli.files import PARTIAL, OutputError
from headlight.cli.tables.part_folder import PIECE, PartFolder
from headlight.cli.tables.table_source import TableSource
from headlight.runtime import Runtime
from headlight.spec import VectorType
from tests.headlight.cli.embed.failing import Failing
from tests.headlight.cli.tables.making import LONG, Run, texts, write
from tests.headlight.fake_model import OTHER_REF
from tests.headlight.fake_server import default_limits

ROWS = 60


@pytest.fixture
def servicer() -> Failing:
    return Failing(default_limits())


@pytest.fixture
def run(run: Run, target: str) -> Run:
    """Run with the fake service as the target, unless the options name a bundle."""
    return lambda *options: run(*([] if "--local" in options else ["--target", target]), *options)


def matrix(table: pa.Table, name: str = "embedding") -> np.ndarray[Any, Any]:
    column = table.column(name).combine_chunks()
    return np.array(column.flatten()).reshape(len(table), -1)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_output_has_every_row_in_order(run: Run, tmp_path: Path, client: Client) -> None:
    write(tmp_path / "in.parquet", texts(ROWS))
    code, err = run("--keep-column", "lang")
    assert (code, err) == (0, f"headlight: wrote {tmp_path}/v.parquet: {ROWS} vectors\n")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["id", "lang", "embedding", "token_count", "truncated"]
    assert table.column("id").to_pylist() == list(range(ROWS))
    assert table.column("lang").to_pylist() == [f"l{at % 3}" for at in range(ROWS)]
    expected = client.encode_with_info(texts(ROWS))
    np.testing.assert_array_equal(matrix(table), expected.vectors)
    assert table.column("token_count").to_pylist() == expected.token_counts.tolist()
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 8)
    assert names(tmp_path) == ["in.parquet", "v.parquet"]


def test_the_metadata_says_how_the_vectors_were_made(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.parquet", texts(3))
    assert run("--dimensions", "4", "--prompt-name", "query")[0] == 0
    metadata = pq.read_schema(tmp_path / "v.parquet").metadata
    assert {key.decode(): value.decode() for key, value in metadata.items()} == {
        "headlight.model": "fake",
        "headlight.version": "1",
        "headlight.bundle_sha256": "ab" * 32,
        "headlight.provider": "cpu",
        "headlight.precision": "fp32",
        "headlight.dimensions": "4",
        "headlight.dtype": "float32",
        "headlight.normalized": "false",
        "headlight.prompt_name": "query",
        "headlight.prompt": "",
        "headlight.truncate": "",
    }


def test_vectors_have_the_requested_types(run: Run, tmp_path: Path, client: Client) -> None:
    write(tmp_path / "in.parquet", texts(9))
    dtypes: tuple[VectorType, ...] = ("float16", "int8", "ubinary")
    options = [option for dtype in dtypes for option in ("--dtype", dtype)]
    assert run(*options)[0] == 0
    table = pq.read_table(tmp_path / "v.parquet")
    expected = client.encode_with_info(texts(9), dtype=dtypes)
    for dtype, kind in zip(dtypes, (pa.float16(), pa.int8(), pa.uint8()), strict=True):
        found = table.schema.field(f"embedding_{dtype}").type
        assert found == pa.list_(kind, expected.by_type[dtype].shape[1])
        np.testing.assert_array_equal(matrix(table, f"embedding_{dtype}"), expected.by_type[dtype])


def test_rows_that_cannot_be_encoded_go_to_a_side_file(
    run: Run, tmp_path: Path, client: Client
) -> None:
    bodies: list[str | None] = [*texts(20)]
    bodies[0], bodies[8], bodies[9], bodies[19] = None, "", LONG, LONG
    write(tmp_path / "in.parquet", bodies)
    code, err = run()
    side = tmp_path / "v.rejected.jsonl"
    assert (code, err.splitlines()[-1]) == (
        PARTIAL,
        f"headlight: 4 of 20 rows could not be encoded: see {side}",
    )
    rejected = [json.loads(line) for line in side.read_text().splitlines()]
    assert [(row["id"], row["row"], row["file_row"]) for row in rejected] == [
        (at, at, at) for at in (0, 8, 9, 19)
    ]
    assert rejected[0]["file"] == str(tmp_path / "in.parquet")
    assert [row["error"] for row in rejected[:2]] == [NULL, EMPTY]
    assert "400" in rejected[2]["error"] or "402" in rejected[2]["error"]
    table = pq.read_table(tmp_path / "v.parquet")
    good = [at for at in range(20) if at not in (0, 8, 9, 19)]
    assert table.column("id").to_pylist() == good
    np.testing.assert_array_equal(matrix(table), client.encode([bodies[at] or "" for at in good]))


def test_a_table_of_bad_rows_alone_has_an_empty_output(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.parquet", [None] * 8)
    assert run()[0] == PARTIAL
    table = pq.read_table(tmp_path / "v.parquet")
    assert (len(table), table.schema.field("embedding").type) == (0, pa.list_(pa.float32(), 8))


def test_a_table_without_rows_has_an_output_with_columns(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.parquet", [])
    code, err = run()
    assert (code, err) == (0, f"headlight: wrote {tmp_path}/v.parquet: 0 vectors\n")
    table = pq.read_table(tmp_path / "v.parquet")
    assert (len(table), table.schema.field("embedding").type) == (0, pa.list_(pa.float32(), 8))


def test_without_an_id_rows_have_their_number(tmp_path: Path, target: str) -> None:
    write(tmp_path / "in.parquet", ["a", None, "c"])
    command = ["embed", str(tmp_path / "in.parquet"), "--text-column", "body", "--target", target]
    assert main([*command, "--out", str(tmp_path / "parts")]) == PARTIAL
    table = pq.read_table(tmp_path / "parts")
    assert table.column("row").to_pylist() == [0, 2]
    assert names(tmp_path / "parts") == [
        "_lock",
        "_manifest.json",
        "_rejected-00000000.jsonl",
        "part-00000000.parquet",
    ]


def test_a_failed_job_keeps_its_parts_and_goes_on(
    run: Run, tmp_path: Path, servicer: Failing, client: Client
) -> None:
    bodies = texts(ROWS)
    write(tmp_path / "in.parquet", bodies)
    servicer.at = bodies[30]
    servicer.fail()
    code, err = run()
    folder = tmp_path / "v.parquet.partial"
    kept = [name for name in names(folder) if name.startswith("part-")]
    rows = sum(min(7, ROWS - 7 * int(name[5:13])) for name in kept)
    assert code == 1
    assert f"{rows} of {ROWS} rows are kept in {folder}; the same command goes on from there" in err
    assert "part-00000004.parquet" not in kept
    servicer.do = lambda: None
    servicer.texts()
    code, err = run()
    assert (code, err.splitlines()[0]) == (
        0,
        f"headlight: going on from {folder}, which has {rows} of {ROWS} rows",
    )
    done = {int(name[5:13]) for name in kept}
    missing = {body for at, body in enumerate(bodies) if at // 7 not in done}
    assert set(servicer.texts()) == missing
    np.testing.assert_array_equal(
        matrix(pq.read_table(tmp_path / "v.parquet")), client.encode(bodies)
    )


def test_an_unavailable_service_is_waited_for(
    run: Run, tmp_path: Path, servicer: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = texts(ROWS)
    write(tmp_path / "in.parquet", bodies)
    servicer.at = bodies[30]
    servicer.fail(grpc.StatusCode.UNAVAILABLE)
    monkeypatch.setattr(
        "headlight.bulk.row_blocks.time.sleep",
        lambda seconds: setattr(servicer, "do", lambda: None),
    )
    code, err = run()
    assert (code, len(pq.read_table(tmp_path / "v.parquet"))) == (0, ROWS)
    assert "; waiting for it, for 60 s at most\n" in err


def test_other_weights_end_the_job(run: Run, tmp_path: Path, servicer: Failing) -> None:
    bodies = texts(ROWS)
    write(tmp_path / "in.parquet", bodies)
    servicer.at = bodies[40]
    servicer.do = lambda: setattr(servicer, "ref", lambda call: OTHER_REF)
    code, err = run()
    assert code == 1
    assert "goes on from there, once the weights before answer again; else remove it\n" in err


def test_in_this_process_a_resumed_job_has_the_same_bytes(
    run: Run, tmp_path: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[str | None] = [*texts(ROWS)]
    bodies[33], bodies[34] = None, LONG
    write(tmp_path / "in.parquet", bodies)
    local = ("--local", str(bundle_path))
    assert run(*local, "--out", str(tmp_path / "whole.parquet"))[0] == PARTIAL
    add, left = PartFolder.add, iter(range(3))

    def until_full(self: PartFolder, number: int, table: pa.Table, rejected: Any) -> None:
        if next(left, None) is None:
            raise OutputError("No space left on device")
        add(self, number, table, rejected)

    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, "add", until_full)
        code, err = run(*local)
        assert (code, "headlight: No space left on device\n" in err) == (1, True)
    assert run(*local)[0] == PARTIAL
    whole, resumed = tmp_path / "whole.parquet", tmp_path / "v.parquet"
    assert whole.read_bytes() == resumed.read_bytes()
    rejected = (tmp_path / "v.rejected.jsonl").read_bytes()
    assert (tmp_path / "whole.rejected.jsonl").read_bytes() == rejected
    table = pq.read_table(resumed)
    with Runtime(bundle_path) as runtime:
        good = [body for body in bodies if body and body != LONG]
        np.testing.assert_allclose(matrix(table), runtime.encode(good), atol=1e-6, rtol=0)


def test_ctrl_c_keeps_the_parts(
    run: Run, tmp_path: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in.parquet", texts(ROWS))
    local = ("--local", str(bundle_path))
    add, added = PartFolder.add, itertools.count(1)

    def interrupted(self: PartFolder, number: int, table: pa.Table, rejected: Any) -> None:
        add(self, number, table, rejected)
        if next(added) == 3:  # a second one would end the process at once
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, "add", interrupted)
        code, err = run(*local)
    assert code == 128 + signal.SIGINT
    assert "are kept in" in err
    assert "Traceback" not in err
    assert run(*local)[0] == 0
    assert run(*local, "--out", str(tmp_path / "whole.parquet"))[0] == 0
    assert (tmp_path / "v.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def end_after_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a run once its output is written."""

    def interrupted(folder: PartFolder) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, "remove", interrupted)
        assert run()[0] == 128 + signal.SIGINT


def test_a_run_that_was_ended_after_its_output_is_complete(
    run: Run, tmp_path: Path, servicer: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in.parquet", texts(ROWS))
    end_after_output(run, monkeypatch)
    output = (tmp_path / "v.parquet").read_bytes()
    servicer.texts()
    code, err = run()
    assert (code, servicer.texts()) == (0, [])
    assert (
        err == f"headlight: {tmp_path}/v.parquet is complete: an earlier run was ended after it\n"
    )
    assert names(tmp_path) == ["in.parquet", "v.parquet"]
    assert (tmp_path / "v.parquet").read_bytes() == output


@pytest.mark.parametrize("change", ["another job", "the output is gone"])
def test_a_run_that_was_ended_after_its_output_completes_no_other_job(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    write(tmp_path / "in.parquet", texts(ROWS))
    end_after_output(run, monkeypatch)
    rows = ROWS
    if change == "another job":
        rows = 9
        write(tmp_path / "in.parquet", texts(rows))
    else:
        (tmp_path / "v.parquet").unlink()
    code, err = run()
    assert (code, err) == (0, f"headlight: wrote {tmp_path}/v.parquet: {rows} vectors\n")
    assert len(pq.read_table(tmp_path / "v.parquet")) == rows
    assert names(tmp_path) == ["in.parquet", "v.parquet"]


def test_a_model_without_texts_is_refused_at_once(
    run: Run, tmp_path: Path, servicer: Failing
) -> None:
    servicer.accepts = ("ids",)
    write(tmp_path / "in.parquet", texts(3))
    code, err = run()
    assert (code, "fake takes ids, and no text" in err) == (2, True)
    assert names(tmp_path) == ["in.parquet"]


def test_an_output_that_is_a_link_is_written_where_it_points(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.parquet", texts(3))
    (tmp_path / "far").mkdir()
    (tmp_path / "v.parquet").symlink_to(tmp_path / "far/w.parquet")
    assert run()[0] == 0
    assert (tmp_path / "v.parquet").is_symlink()
    assert len(pq.read_table(tmp_path / "far/w.parquet")) == 3


def pieces(folder: Path) -> list[str]:
    return [name for name in names(folder) if PIECE.fullmatch(name)]


def test_rows_of_a_slow_part_are_kept_as_time_passes(
    run: Run, tmp_path: Path, servicer: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[str | None] = [*texts(ROWS)]
    bodies[3] = None
    write(tmp_path / "in.parquet", bodies)
    folder, whole = tmp_path / "v.parquet.partial", tmp_path / "whole.parquet"
    slow = ("--part-rows", "1000", "--progress")
    assert run(*slow, "--out", str(whole))[0] == PARTIAL
    servicer.at, seen = bodies[50] or "", list[list[str]]()

    def look() -> None:
        servicer.do = lambda: None
        while sum(int(name[-14:-6]) - int(name[-23:-15]) for name in pieces(folder)) < 40:
            pass  # of the blocks before, whose answers are on their way
        seen.append(pieces(folder))
        servicer.fail()
        servicer.do()

    monkeypatch.setattr("headlight.cli.tables.growing_part.PIECE_SECONDS", 0.0)
    servicer.do = look
    code, err = run(*slow)
    assert (code, len(seen[0]) >= 2) == (1, True)
    assert err.splitlines()[0] == f"headlight: 0 of {ROWS} texts"
    kept = int(re.search(rf"(\d+) of {ROWS} rows are kept in", err)[1])  # type: ignore[index]
    assert 40 <= kept <= 50
    servicer.do = lambda: None
    servicer.texts()
    code, err = run(*slow)
    assert (code, f"which has {kept} of {ROWS} rows" in err) == (PARTIAL, True)
    # Calls run beside one another, so they may arrive in any order.
    assert sorted(servicer.texts()) == sorted(texts(ROWS)[kept:])
    assert pq.read_table(tmp_path / "v.parquet").equals(pq.read_table(whole))
    sides = [(tmp_path / f"{name}.rejected.jsonl").read_text() for name in ("v", "whole")]
    assert sides[0] == sides[1] != ""
    assert not folder.exists()


def test_ctrl_c_before_the_first_row_says_so(run: Run, tmp_path: Path, servicer: Failing) -> None:
    bodies = texts(3)
    write(tmp_path / "in.parquet", bodies)
    servicer.at, free = bodies[0], threading.Event()

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        free.wait(50)

    servicer.do = interrupt
    code, err = run()
    free.set()
    assert (code, err) == (
        128 + signal.SIGINT,
        "headlight: 0 of 3 rows were finished; the same command begins anew\n",
    )


def test_a_job_of_an_earlier_version_continues_or_is_refused(
    run: Run, tmp_path: Path, servicer: Failing
) -> None:
    """Its folder has parts alone; the manifest of the first format is written out here."""
    bodies = texts(ROWS)
    path = write(tmp_path / "in.parquet", bodies)
    assert run("--out", str(tmp_path / "whole"))[0] == 0
    folder = tmp_path / "v.parquet.partial"
    folder.mkdir()
    shutil.copy(tmp_path / "whole/part-00000001.parquet", folder)
    digest = TableSource([str(path)], ["body"], []).files[0].digest
    first = {
        "format": 1,
        "input": [[str(path), ROWS, digest]],
        "--text-column": "body",
        "--id-column or --keep-column": ["id"],
        "--part-rows": 7,
        "model or precision": ["fake", "ab" * 32, "fp32"],
        "--dtype or --dimensions": [["float32", "<f4", 8]],
        "--normalize": None,
        "--truncate": None,
        "--prompt": [None, None],
        "--special-tokens": None,
    }
    manifest = folder / "_manifest.json"
    for change, says in (
        ({"format": 0}, "was begun by another version of this command; finish it with"),
        ({"--later": "on"}, "was made with another --later; remove it to begin anew"),
    ):
        manifest.write_text(json.dumps(first | change), encoding="utf-8")
        before = {each.name: each.read_bytes() for each in folder.glob("[!_]*")}
        code, err = run()
        assert (code, says in err) == (2, True)
        assert {each.name: each.read_bytes() for each in folder.glob("[!_]*")} == before
        assert json.loads(manifest.read_text()) == first | change
    manifest.write_text(json.dumps(first), encoding="utf-8")
    servicer.texts()
    code, err = run()
    assert (code, f"which has 7 of {ROWS} rows" in err) == (0, True)
    assert sorted(servicer.texts()) == sorted(bodies[:7] + bodies[14:])
    assert pq.read_table(tmp_path / "v.parquet").equals(pq.read_table(tmp_path / "whole"))


STRINGS = (
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.dictionary(pa.int8(), kind) for kind in (pa.string(), pa.string_view())),
)
BINARIES = pa.binary(), pa.large_binary(), pa.binary_view()


def column(values: list[str | None], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).cast(kind)
    plain = pa.array(values, pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        plain.indices.cast(kind.index_type), plain.dictionary.cast(kind.value_type)
    )


@pytest.mark.parametrize("ids", [*STRINGS, *BINARIES], ids=str)
def test_texts_and_ids_of_every_string_type_are_read(
    tmp_path: Path, target: str, client: Client, ids: pa.DataType
) -> None:
    """Beside another file, whose ids are of another type."""
    (tmp_path / "in").mkdir()
    for number, kind in enumerate(STRINGS):
        of_ids = ids if number == 0 else (pa.binary() if ids in BINARIES else pa.string())
        table = pa.table(
            {
                "body": column([f"text {number}", None, "a"], kind),
                "id": column([f"i{number}", f"j{number}", None], of_ids),
            }
        )
        with (
            pa.OSFile(str(tmp_path / f"in/{number}.arrow"), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
    command = ["embed", str(tmp_path / "in"), "--text-column", "body", "--id-column", "id"]
    for source, rows in ((tmp_path / "in/0.arrow", 1), (tmp_path / "in", len(STRINGS))):
        command[1], out = str(source), tmp_path / "v.parquet"
        assert main([*command, "--target", target, "--out", str(out)]) == PARTIAL
        found = pq.read_table(out)
        expected = [name for at in range(rows) for name in (f"i{at}", None)]
        assert found.column("id").cast(pa.string()).to_pylist() == expected
        bodies = [text for at in range(rows) for text in (f"text {at}", "a")]
        np.testing.assert_array_equal(matrix(found), client.encode(bodies))
