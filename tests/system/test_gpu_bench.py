"""`python -m bench.gpu` rehearsed on a CPU: every section runs, and what it writes says that it is a rehearsal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 420


def test_a_rehearsal_runs_every_section(tmp_path: Path) -> None:
    """Of a bundle that has fp32 alone: the other precisions are told as missing."""
    bundles, out = tmp_path / "bundles", tmp_path / "out"
    bundles.mkdir()
    (bundles / "docs-rope").symlink_to(bundle_of("docs-rope"))
    command = [sys.executable, "-m", "bench.gpu", "--provider", "cpu", "--bundles", str(bundles), "--out", str(out)]
    command += ["--trained", "docs-rope", "--sizes", "docs-rope", "--lengths", "16", "--tokens", "64"]
    command += ["--texts", "32", "--group", "4", "--requests", "2", "--rounds", "1", "--budget-seconds", "400"]
    alone = os.environ | {
        "OMP_NUM_THREADS": "1"
    }  # PyTorch's threads and ONNX Runtime's would wait for each other's cores
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    assert found["rehearsal"] is True
    assert (found["failed"], found["cut"]) == ({}, {})
    parity = found["parity"]["docs-rope"]
    assert max(one["relative"] for one in parity["fp32"]["outputs"].values()) < 1e-4
    assert parity["fp32"]["gate"] == ""
    assert "no embed graph for cpu/fp16" in parity["fp16"]["error"]
    rows = [row for row in found["speed"] if row["precision"] == "fp32"]
    assert {row["kind"] for row in rows} == {"docstrings", "log-normal", "length", "one text"}
    assert all(cosine > 0.99999 for row in rows for cosine in row.get("cosines", {}).values())
    assert set(found["served"]["measured"]) >= {"the engine alone, the whole list", "Headlight"}
    assert found["served"]["failed"] == {}
    assert all("times" in row for row in found["attention"])
    experiments = {name: one for name, one in found["experiments"].items() if isinstance(one, dict)}
    assert set(experiments) == {"forms of the graph", "CUDA graphs", "where outputs go", "how memory grows"}
    assert not any("error" in one for one in experiments.values())
    report = (out / "gpu.md").read_text(encoding="utf-8")
    assert report.startswith("# A rehearsal on a CPU")
    assert "| reached |" not in report
    assert (out / "gpu.png").is_file()


def test_without_bundles_it_says_how_to_make_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.gpu", "--provider", "cpu", "--bundles", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("nothing is measured: ")
    assert "python -m bench.gpu prepare" in done.stderr
