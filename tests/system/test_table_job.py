"""Jobs from Parquet to Parquet that are killed, with a service that is killed too."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headlight import Client
from tests.ports import free_port
from tests.system.conftest import bundle_of
from tests.system.killing import embed, finish, kill_midway, parts_in, started
from tests.system.processes import Service

ROWS, PART, KILLS = 1500, 50, 3
TEXTS: list[str | None] = [f"open file number {number} of {number % 97}" for number in range(ROWS)]
TEXTS[70], TEXTS[700] = None, ""
GOOD = [text for text in TEXTS if text]
COLUMNS = ("--text-column", "body", "--id-column", "id", "--part-rows", str(PART))


def vectors(path: Path) -> np.ndarray[Any, Any]:
    table = pq.read_table(path)
    assert table.column("id").to_pylist() == [at for at, text in enumerate(TEXTS) if text]
    return np.array(table.column("embedding").combine_chunks().flatten()).reshape(len(table), -1)


def write(folder: Path, repeat: int = 1) -> str:
    for first in range(0, ROWS, 400):
        body = [text and f"{text} " * repeat for text in TEXTS[first : first + 400]]
        table = pa.table({"id": range(first, first + len(body)), "body": body})
        pq.write_table(table, folder / f"{first:04}.parquet", row_group_size=150)
    return str(folder)


def test_a_job_killed_again_and_again_has_the_bytes_of_one_that_was_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source, draw = write(tmp_path / "in"), random.Random(30)
    command = embed(source, *COLUMNS, "--local", str(bundle_of("docs-rope")))
    killed, whole = tmp_path / "killed.parquet", tmp_path / "whole.parquet"
    counts = [
        kill_midway([*command, "--out", str(killed)], tmp_path / "killed.parquet.partial", draw)
        for _ in range(KILLS)
    ]
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] < ROWS // PART
    report = finish([*command, "--out", str(killed)])
    assert f"has {counts[-1] * PART:,} of {ROWS:,} rows" in report
    assert f"2 of {ROWS:,} rows could not be encoded" in report
    finish([*command, "--out", str(whole)])
    assert killed.read_bytes() == whole.read_bytes()
    assert len(vectors(killed)) == len(GOOD)


def test_a_job_outlives_its_service_and_itself(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source, at = write(tmp_path / "in"), f"127.0.0.1:{free_port()}"
    out, folder = tmp_path / "v.parquet", tmp_path / "v.parquet.partial"
    command = embed(source, *COLUMNS, "--target", at, "--out", str(out))
    first = Service(bundle_of("docs-rope"), grpc_at=at)
    job = started(command)
    try:
        while not parts_in(folder):
            assert job.poll() is None
        first.process.kill()
        assert job.stderr is not None
        assert "; waiting for it, for 60 s at most" in job.stderr.readline()
        with Service(bundle_of("docs-rope"), grpc_at=at):
            stayed = parts_in(folder)
            while parts_in(folder) == stayed:
                assert job.poll() is None
            job.kill()
            assert "has " in finish(command)
            with Client(at) as client:
                np.testing.assert_allclose(vectors(out), client.encode(GOOD), atol=1e-6, rtol=0)
    finally:
        job.kill()
        job.communicate()
        first.process.kill()
        first.process.communicate()


def test_a_job_interrupted_by_ctrl_c_goes_on_within_its_part(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = write(tmp_path / "in", 10)  # some 50 texts a call, and four calls at once
    out, folder, whole = (tmp_path / name for name in ("v.parquet", "v.parquet.partial", "w"))
    with Service(bundle_of("docs-rope")) as service:
        command = embed(source, *COLUMNS[:4], "--part-rows", str(ROWS), "--target", service.target)
        job = started([*command, "--out", str(out)])
        try:
            while service.counted("headlight_texts_total") < ROWS // 5:
                assert job.poll() is None
            job.send_signal(signal.SIGINT)
            report = job.communicate(timeout=60)[1]
        finally:
            job.kill()
            job.communicate()
        assert job.returncode == 128 + signal.SIGINT, report
        kept = re.search(rf"([\d,]+) of {ROWS:,} rows are kept in {folder}; the same com", report)
        assert kept is not None, report
        assert parts_in(folder) == 0
        assert f"has {kept[1]} of {ROWS:,} rows" in finish([*command, "--out", str(out)])
        finish([*command, "--out", str(whole)])
    np.testing.assert_allclose(vectors(out), vectors(whole), atol=1e-6, rtol=0)
