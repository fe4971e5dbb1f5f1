"""Tables on an object store: S3, as moto's server speaks it on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from headlight.cli.commands import main
from headlight.cli.files import PARTIAL, OutputError
from headlight.cli.tables.part_folder import PartFolder
from headlight.runtime import Runtime
from tests.headlight.cli.tables.making import texts, write

ROWS = 300


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            patch.setenv(name, value)
        store = fsspec.filesystem("s3")
        store.mkdir("bulk")
        yield "s3://bulk"
        type(store).clear_instance_cache()
    server.stop()


@pytest.fixture
def source(bucket: str, tmp_path: Path) -> str:
    bodies: list[str | None] = [*texts(ROWS)]
    bodies[120] = None
    store = fsspec.filesystem("s3")
    for first in range(0, ROWS, 100):
        path = write(tmp_path / f"{first}.parquet", bodies[first : first + 100], first, 30)
        store.put_file(str(path), f"bulk/in/{first:03}.parquet")
    return f"{bucket}/in"


def command(source: str, out: str, bundle: Path) -> list[str]:
    columns = ["--text-column", "body", "--id-column", "id", "--part-rows", "40"]
    return ["embed", source, *columns, "--out", out, "--local", str(bundle)]


def table_of(url: str) -> pa.Table:
    with fsspec.open(url, "rb") as file:
        return pq.read_table(file)


def test_a_resumed_job_on_an_object_store_has_the_same_bytes(
    bucket: str,
    source: str,
    bundle_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, resumed = f"{bucket}/whole.parquet", f"{bucket}/resumed.parquet"
    assert main(command(source, whole, bundle_path)) == PARTIAL
    add, left = PartFolder.add, iter(range(3))

    def until_lost(self: PartFolder, number: int, table: pa.Table, rejected: Any) -> None:
        if next(left, None) is None:
            raise OutputError("the connection was lost")
        add(self, number, table, rejected)

    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, "add", until_lost)
        assert main(command(source, resumed, bundle_path)) == 1
    assert f"are kept in {resumed}.partial; the same command goes on" in capsys.readouterr().err
    assert main(command(source, resumed, bundle_path)) == PARTIAL
    assert "going on from" in capsys.readouterr().err
    store = fsspec.filesystem("s3")
    assert store.cat_file("bulk/whole.parquet") == store.cat_file("bulk/resumed.parquet")
    assert not store.exists("bulk/resumed.parquet.partial")
    table = table_of(resumed)
    good = [at for at in range(ROWS) if at != 120]
    assert table.column("id").to_pylist() == good
    vectors = np.array(table.column("embedding").combine_chunks().flatten()).reshape(len(good), -1)
    with Runtime(bundle_path) as runtime:
        expected = runtime.encode([texts(ROWS)[at] for at in good])
    np.testing.assert_allclose(vectors, expected, atol=1e-6, rtol=0)
    assert b'"id": 120' in store.cat_file("bulk/resumed.rejected.jsonl")


def test_a_folder_of_parts_on_an_object_store_is_one_table(
    bucket: str, source: str, bundle_path: Path
) -> None:
    assert main(command(f"{source}/*.parquet", f"{bucket}/parts", bundle_path)) == PARTIAL
    names = [name.rpartition("/")[2] for name in fsspec.filesystem("s3").ls("bulk/parts")]
    assert "_manifest.json" in names
    parts = sorted(name for name in names if name.startswith("part-"))
    rows = [len(table_of(f"{bucket}/parts/{name}")) for name in parts]
    assert (len(parts), sum(rows)) == (8, ROWS - 1)


@pytest.mark.parametrize(
    ("source", "out", "code", "message"),
    [
        ("s3://nowhere/in", "s3://bulk/v.parquet", 2, "s3://nowhere/in: there is no such file"),
        ("s3://bulk/in", "s3://nowhere/v.parquet", 1, "s3://nowhere/v.parquet.partial: cannot wr"),
    ],
)
def test_a_missing_bucket_is_one_line(
    source: str,
    out: str,
    code: int,
    message: str,
    bundle_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(command(source, out, bundle_path)) == code
    err = capsys.readouterr().err
    assert (message in err, err.count("\n")) == (True, 1), err


def test_a_store_that_does_not_answer_is_one_line(
    bundle_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store = type(fsspec.filesystem("s3"))
    store.clear_instance_cache()
    assert main(command("s3://bulk/in", "s3://bulk/v.parquet", bundle_path)) == 1
    err = capsys.readouterr().err
    store.clear_instance_cache()
    assert "s3://bulk/in: cannot read it: " in err
    assert err.count("\n") == 1
