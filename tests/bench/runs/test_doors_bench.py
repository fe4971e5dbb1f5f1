"""`python -m bench.doors` on a small scale, without infinity: each door has its rows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bench.serving.doors import CONTRACT, OURS
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 300


def test_a_small_run_has_a_row_for_each_door_and_workload(tmp_path: Path) -> None:
    out = tmp_path / "doors.md"
    command = [sys.executable, "-m", "bench.doors", "--rounds", "1", "--texts", "32", "--no-peer"]
    command += ["--bundle", str(bundle_of("docs-rope")), "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    report = out.read_text(encoding="utf-8")
    tables = re.split(r"^## .*$", report, flags=re.MULTILINE)[1:]
    assert len(tables) == 6
    for table in tables:
        rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
        assert [row[0].removeprefix("| ") for row in rows] == [door.name for door in OURS]
        assert all(float(row[1]) > 0 and float(row[3]) > 0 for row in rows)
        assert rows[0][0] == f"| {CONTRACT.name}"
        assert rows[0][2] == "1.00"
