"""The script that the Indexed Job of deploy/examples/bulk-job runs, as its pods run it, against the real service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from tests.system.processes import ROOT, Service

SCRIPT = ROOT / "deploy" / "examples" / "bulk-job" / "bulk.sh"
SHARDS = 2


def worker(
    data: Path, index: int, target: str, programs: Path = Path(sys.executable).parent
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "DATA": str(data),
        "SHARDS": str(SHARDS),
        "JOB_COMPLETION_INDEX": str(index),
        "HEADLIGHT_TARGET": target,
    }
    return subprocess.run(
        ["/bin/sh", str(SCRIPT)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(5):
        lines = "".join(f"file {number} line {line}\n" for line in range(number + 1))
        (tmp_path / "in" / f"part {number}.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def outputs(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "out").iterdir())


def test_workers_share_the_files_and_do_none_twice(rope: Service, data: Path) -> None:
    first = worker(data, 0, rope.target)
    assert first.returncode == 0, first.stderr
    assert outputs(data) == ["part 0.npz", "part 2.npz", "part 4.npz"]
    assert worker(data, 1, f"dns:///{rope.target}").returncode == 0  # as in the cluster
    assert outputs(data) == [f"part {number}.npz" for number in range(5)]
    with Client(rope.target) as client:
        expected = client.encode([f"file 4 line {line}" for line in range(5)])
    with np.load(data / "out" / "part 4.npz") as archive:
        [found] = [array for array in archive.values() if array.shape == expected.shape]
        assert np.abs(found - expected).max() <= 1e-6
    again = worker(data, 0, rope.target)
    assert (again.returncode, again.stdout) == (0, "")  # all is there


def test_what_can_never_be_embedded_fails_its_part_and_no_more(rope: Service, data: Path) -> None:
    (data / "in" / "part 0.txt").write_text("a line\n\nand another\n", encoding="utf-8")
    done = worker(data, 0, rope.target)
    assert done.returncode == 2, done.stderr  # for FailIndex of the Job's podFailurePolicy
    assert "line 2 is empty" in done.stderr
    assert outputs(data) == ["part 2.npz", "part 4.npz"]


def test_what_the_service_failed_is_left_for_another_try(data: Path) -> None:
    """The command line ends with 1 where the service is away, after half a minute of trying; here at once."""
    (data / "bin").mkdir()
    python = data / "bin" / "python"
    python.write_text("#!/bin/sh\necho away >&2\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    done = worker(data, 0, "127.0.0.1:1", data / "bin")
    assert (done.returncode, done.stderr) == (1, "away\n")  # at the first file: the others would fare no better
    assert outputs(data) == []
