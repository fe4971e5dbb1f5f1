"""The script of the Indexed Job in deploy/examples/bulk-job, as its pods run it.

Against the real service.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

SCRIPT = ROOT / "deploy" / "examples" / "bulk-job" / "bulk.sh"
SHARDS = 2


def worker(
    data: Path,
    index: int,
    target: str,
    *arguments: str,
    token_file: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DATA": str(data),
        "SHARDS": str(SHARDS),
        "JOB_COMPLETION_INDEX": str(index),
        "HEADLIGHT_TARGET": target,
    }
    if token_file is not None:
        environment["HEADLIGHT_TOKEN_FILE"] = str(token_file)
    command = ["/bin/sh", str(SCRIPT), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = "".join(f"file {number} line {line}\n" for line in range(number + 1))
        (tmp_path / "in" / f"part {number}.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def outputs(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "out").iterdir())


def test_workers_divide_the_files_without_duplicates(rope: Service, data: Path) -> None:
    first = worker(data, 0, rope.target)
    assert first.returncode == 0, first.stderr
    assert outputs(data) == ["part 0.npz", "part 2.npz"]
    assert worker(data, 1, f"dns:///{rope.target}").returncode == 0  # as in the cluster
    assert outputs(data) == [f"part {number}.npz" for number in range(3)]
    with Client(rope.target) as client:
        expected = client.encode([f"file 2 line {line}" for line in range(3)])
    with np.load(data / "out" / "part 2.npz") as archive:
        [found] = [array for array in archive.values() if array.shape == expected.shape]
        assert np.abs(found - expected).max() <= 1e-6
    again = worker(data, 0, rope.target)
    assert (again.returncode, again.stdout) == (0, "")  # every row exists


def test_a_permanent_failure_fails_only_its_index(rope: Service, data: Path) -> None:
    (data / "in" / "part 0.txt").write_text("a line\n\nand another\n", encoding="utf-8")
    done = worker(data, 0, rope.target)
    assert done.returncode == 2, done.stderr  # for FailIndex of the Job's podFailurePolicy
    assert "line 2: is empty" in done.stderr
    assert outputs(data) == ["part 2.npz"]


def test_a_retry_resumes_from_the_checkpoint(rope: Service, data: Path) -> None:
    """It stopped at a line that can never be embedded, which is corrected then."""
    lines = [f"line {number}" for number in range(600)]  # more than one request can carry
    (data / "in" / "part 0.txt").write_text("\n".join([*lines, "word " * 4000]), encoding="utf-8")
    assert worker(data, 0, rope.target).returncode == 2
    assert outputs(data) == ["part 0.npz.partial", "part 2.npz"]
    (data / "in" / "part 0.txt").write_text("\n".join([*lines, "word"]), encoding="utf-8")
    done = worker(data, 0, rope.target)
    kept = re.search(r"going on from .*, which has (\d+) of 601 texts", done.stderr)
    assert (done.returncode, kept is not None and int(kept[1]) > 300) == (0, True), done.stderr
    assert outputs(data) == ["part 0.npz", "part 2.npz"]
    left_out = worker(data, 1, rope.target, "--skip-bad")
    assert left_out.returncode == 0, left_out.stderr
    with np.load(data / "out" / "part 1.npz") as archive:
        assert archive["lines"].tolist() == [1, 2]


def test_a_missing_model_is_left_for_a_retry(rope: Service, data: Path) -> None:
    done = worker(data, 0, rope.target, "--model", "other")
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("headlight: ") == 1  # at the first file
    assert outputs(data) == []


def test_an_unknown_token_is_left_for_a_retry(data: Path) -> None:
    """Not exit code 2, which would make the Job give up the index.

    Tokens are replaced on two sides, one a moment before the other.
    """
    known, mine = data / "tokens", data / "token"
    known.write_text("bulk the-token-of-bulk-jobs\n", encoding="ascii")
    mine.write_text("another-token-altogether\n", encoding="ascii")
    with Service(bundle_of("docs-rope"), "--auth-tokens", str(known)) as service:
        refused = worker(data, 0, service.target, token_file=mine)
        assert refused.returncode == 1, refused.stderr
        assert "--token-file" in refused.stderr
        assert outputs(data) == []
        mine.write_text("the-token-of-bulk-jobs\n", encoding="ascii")
        again = worker(data, 0, service.target, token_file=mine)
    assert again.returncode == 0, again.stderr
    assert outputs(data) == ["part 0.npz", "part 2.npz"]
