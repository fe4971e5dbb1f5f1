"""The script of the Indexed Job on Parquet, as its pods run it: in process, and by the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headlight import Client
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

SCRIPT = ROOT / "deploy" / "examples" / "bulk-job" / "bulk.sh"
LOCAL = ("--local", str(bundle_of("docs-rope")))
COLUMNS = {"TEXT_COLUMN": "body", "ID_COLUMN": "id"}
ROWS = 5
AWAY = "127.0.0.1:1"  # a pod with --local has HEADLIGHT_TARGET, too, and does not use it


def environment(data: Path, index: int, target: str = AWAY, **others: str) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DATA": str(data),
        "SHARDS": "2",
        "JOB_COMPLETION_INDEX": str(index),
        "HEADLIGHT_TARGET": target,
        **COLUMNS,
        **others,
    }


def worker(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), *arguments],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(3):
        write(tmp_path, number, [f"file {number} row {row}" for row in range(ROWS)])
    (tmp_path / "in" / "notes.txt").write_text("ignored\n", encoding="utf-8")
    return tmp_path


def write(data: Path, number: int, texts: list[str | None]) -> None:
    ids = [f"{number}-{row}" for row in range(len(texts))]
    table = pa.table({"id": ids, "body": pa.array(texts, pa.string())})
    pq.write_table(table, data / "in" / f"part {number}.parquet")


def outputs(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "out").iterdir())


def vectors(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    column = pq.read_table(path).column("embedding").combine_chunks()
    return np.asarray(column.flatten()).reshape(len(column), -1)


def test_workers_divide_the_files_and_both_ways_agree(rope: Service, data: Path) -> None:
    """Worker 0 computes in its process, worker 1 calls the service."""
    first = worker(environment(data, 0), *LOCAL)
    assert first.returncode == 0, first.stderr
    assert outputs(data) == ["part 0.parquet", "part 2.parquet"]
    second = worker(environment(data, 1, f"dns:///{rope.target}"))
    assert second.returncode == 0, second.stderr
    assert outputs(data) == [f"part {number}.parquet" for number in range(3)]
    with Client(rope.target) as client:
        for number in range(3):
            path = data / "out" / f"part {number}.parquet"
            expected = client.encode([f"file {number} row {row}" for row in range(ROWS)])
            assert np.abs(vectors(path) - expected).max() <= 1e-6
            assert pq.read_table(path)["id"].to_pylist() == [f"{number}-{r}" for r in range(ROWS)]
    again = worker(environment(data, 0), *LOCAL)
    assert (again.returncode, again.stdout) == (0, "")


def test_arguments_and_a_missing_id_column(data: Path) -> None:
    done = worker(environment(data, 1, ID_COLUMN=""), *LOCAL, "--dtype", "float16")
    assert done.returncode == 0, done.stderr
    table = pq.read_table(data / "out" / "part 1.parquet")
    assert table.column_names == ["row", "embedding", "token_count", "truncated"]
    assert table.schema.field("embedding").type.value_type == pa.float16()


def test_rows_without_a_text_are_listed_beside_the_output(data: Path) -> None:
    write(data, 1, ["a text", None, ""])
    assert worker(environment(data, 1), *LOCAL).returncode == 0
    assert len(vectors(data / "out" / "part 1.parquet")) == 1
    lines = (data / "out" / "part 1.rejected.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["1-1", "1-2"]


def test_a_permanent_failure_fails_only_its_index(data: Path) -> None:
    damaged = data / "in" / "part 0.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    done = worker(environment(data, 0), *LOCAL)
    assert done.returncode == 2, done.stderr  # for FailIndex of the Job's podFailurePolicy
    assert "part 0.parquet: is no whole Parquet" in done.stderr
    assert outputs(data) == ["part 2.parquet"]
    missing = worker(environment(data, 1, TEXT_COLUMN="title"), *LOCAL)
    assert (missing.returncode, "has no column 'title'" in missing.stderr) == (2, True)
    empty = worker(environment(data / "in", 0), *LOCAL)
    assert (empty.returncode, empty.stderr.endswith("has no *.parquet\n")) == (2, True)


def test_a_service_that_is_away_is_left_for_a_retry(data: Path) -> None:
    done = worker(environment(data, 0), "--retry-for", "0")
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("headlight: ") == 1  # at the first file: the others would fail as well
    assert outputs(data) == []
