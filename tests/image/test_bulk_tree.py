"""The installation for jobs over Parquet: the script of the Indexed Job, run in it as nobody."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.image.locked import ROOT, canonical, read_lock, requirements_file
from tests.image.conftest import Tree, as_nobody
from tests.image.test_tree import TEXTS, installed, pooled_here

SCRIPT = ROOT / "deploy" / "examples" / "bulk-job" / "bulk.sh"


@pytest.fixture
def data() -> Iterator[Path]:
    """Return a folder that another user can write, with a table and the script of the Job."""
    with tempfile.TemporaryDirectory(prefix="headlight-bulk-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "in").mkdir()
        (folder / "bulk.sh").write_bytes(SCRIPT.read_bytes())
        pq.write_table(pa.table({"id": [0, 1], "body": TEXTS}), folder / "in" / "a.parquet")
        yield folder


def worker(tree: Tree, data: Path) -> subprocess.CompletedProcess[str]:
    """Run a worker of `deploy/examples/bulk-local` as its pod does."""
    columns = {"TEXT_COLUMN": "body", "ID_COLUMN": "id"}
    variables = {"JOB_COMPLETION_INDEX": "0", "SHARDS": "1", "DATA": str(data), **columns}
    return subprocess.run(
        [*as_nobody(), "/bin/sh", str(data / "bulk.sh"), "--local", str(tree.root / "bundle")],
        cwd=tree.root / "headlight",
        env=tree.environment() | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_bulk_image_embeds_parquet_as_nobody(bulk_tree: Tree, data: Path) -> None:
    done = worker(bulk_tree, data)
    assert done.returncode == 0, done.stderr
    found = pq.read_table(data / "out" / "a.parquet")["embedding"].to_pylist()
    assert abs(pooled_here() - found).max() <= 1e-6


def test_the_bulk_image_holds_the_locked_packages_and_no_more(bulk_tree: Tree) -> None:
    pins = read_lock(requirements_file("bulk"))
    versions = {name: found.version for name, found in installed(bulk_tree).items()}
    assert versions["pyarrow"] == pins["pyarrow"].version
    assert set(versions) <= set(pins)
    added = set(pins) - set(read_lock(requirements_file("cpu")))
    assert added == {canonical(name) for name in ("fsspec", "pyarrow")}


def test_the_other_image_reports_the_missing_package(tree: Tree, data: Path) -> None:
    done = worker(tree, data)
    assert done.returncode == 2, done.stderr
    assert "needs pyarrow, which is not installed" in done.stderr
